"""The class archive (class-data sharing): Spark's classes as Java has loaded them, kept between starts.

Owns where the archive is and the options by which Java uses it; `class_training` makes it. An archive belongs to one
Java and one Spark. Java itself refuses one that does not match or is damaged, and starts as if there were none.
"""

import hashlib
from pathlib import Path
from typing import Final

import pyspark

from penstock.pipeline.engine.java import Java

JARS: Final = Path(pyspark.__file__).parent / "jars"


def archive_path(java: Java, kept_in: Path) -> Path:
    """The archive of this Java and this Spark, there or not."""
    identity = hashlib.sha256(f"{java.home} {java.release} {JARS} {pyspark.__version__}".encode()).hexdigest()
    return kept_in / f"spark-{pyspark.__version__}-java-{java.release}-{identity[:12]}.jsa"


def archive_options(java: Java, kept_in: Path | None) -> list[str]:
    """The options by which Java uses the archive; none if there is no archive."""
    if kept_in is None or not (archive := archive_path(java, kept_in)).is_file():
        return []
    return [f"-XX:SharedArchiveFile={archive}"]


def recording_options(java: Java, kept_in: Path, draft: Path) -> list[str]:
    """The options by which Java writes an archive to `draft` when it ends."""
    own = base_archive(java, kept_in)
    return [f"-XX:ArchiveClassesAtExit={draft}", *([] if own is None else [f"-XX:SharedArchiveFile={own}"])]


def base_archive(java: Java, kept_in: Path) -> Path | None:
    """Where the archive of Java's own classes has to be made, which ours builds on; None if this Java came with one."""
    if (java.home / "lib" / "server" / "classes.jsa").is_file():
        return None
    archive = archive_path(java, kept_in)
    return archive.with_name(f"base-of-{archive.name}")
