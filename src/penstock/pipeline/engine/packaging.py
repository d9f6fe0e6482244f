"""Ships the package to the executors of a cluster.

Owns the zip of our own modules. Their dependencies (pyarrow, PyAV) have to be installed where the executors run. Local
sessions use the files and the Python of this process.
"""

import atexit
import hashlib
import io
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

PACKAGE: Final = Path(__file__).parents[2]
# A zip keeps the time of each file; with one time for all, equal files are equal zips.
FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)


def ship_package(spark: SparkSession) -> None:
    """Let the workers of this session import this version of the package. Repeating it changes nothing."""
    context = spark.sparkContext
    if (context.master or "").startswith("local"):
        if "PYSPARK_PYTHON" not in os.environ:
            # PySpark would start the python3 of the path, which need not be the one that runs here.
            context.pythonExec = sys.executable
        return
    content = package_zip(PACKAGE)
    name = f"{PACKAGE.name}-{hashlib.sha256(content).hexdigest()[:12]}.zip"
    if any(shipped.endswith(f"/{name}") for shipped in context.listFiles):
        return
    # Executors that start later fetch it from this file, so it stays for as long as this process.
    folder = Path(tempfile.mkdtemp(prefix="penstock-package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / name).write_bytes(content)
    context.addPyFile(str(folder / name))


def package_zip(package: Path) -> bytes:
    """The modules of a package, as a zip that Python can import from."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*.py")):
            entry = zipfile.ZipInfo(str(path.relative_to(package.parent)), FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return content.getvalue()
