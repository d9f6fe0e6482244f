"""What a session is told, whoever made it, and the archive that makes it start sooner."""

import os
import socket
import struct
import subprocess
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from penstock.errors import ConfigError
from penstock.pipeline.engine.class_archive import JARS, archive_options, archive_path, base_archive, recording_options
from penstock.pipeline.engine.class_training import ensure_base, exercise
from penstock.pipeline.engine.java import Java, find_java
from penstock.pipeline.engine.session import (
    NEEDED,
    SparkSettings,
    ensure_needed,
    launch_environment,
    open_session,
    session_conf,
)

JAVA = Java(Path("/opt/java"), 21, "21.0.4", "PATH")
TIME_ZONE = "spark.sql.session.timeZone"


def test_a_local_session_is_bound_to_loopback_and_sized_by_its_cores() -> None:
    conf = session_conf(SparkSettings(cores=3, heap="2g"), JAVA, None)
    told = {name: conf[name] for name in ("spark.driver.host", "spark.driver.memory", "spark.sql.shuffle.partitions")}
    assert told == {"spark.driver.host": "127.0.0.1", "spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "6"}
    assert "-XX:+UseParallelGC" in conf["spark.driver.extraJavaOptions"].split()


@pytest.mark.parametrize(
    ("master", "is_on_loopback"),
    [
        (None, True),
        ("local[2]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://10.0.0.7:7077", False),
        ("k8s://https://10.0.0.7:443", False),
        ("yarn", False),
    ],
)
def test_executors_on_other_machines_can_reach_the_driver(
    tmp_path: Path, master: str | None, is_on_loopback: bool
) -> None:
    settings = SparkSettings(master=master)
    assert ("spark.driver.host" in session_conf(settings, JAVA, None)) is is_on_loopback
    java = find_java()
    assert ("SPARK_LOCAL_IP" in launch_environment(settings, java, tmp_path)) is is_on_loopback


@pytest.mark.parametrize(
    ("master", "is_asked_for"),
    [(None, True), ("local", True), ("local[*]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)],
)
def test_who_talks_to_a_local_session_has_to_know_its_secret(master: str | None, is_asked_for: bool) -> None:
    conf = session_conf(SparkSettings(master=master), JAVA, None)
    assert (conf.get("spark.authenticate") == "true") is is_asked_for
    # Spark draws it: what it is told is in the list of processes.
    assert "spark.authenticate.secret" not in conf


def test_a_stranger_on_this_machine_is_not_listened_to(spark: SparkSession) -> None:
    request = struct.pack(">bqi", 3, 7, 5) + b"hello"
    port = int(spark.sparkContext.getConf().get("spark.driver.port") or 0)
    with socket.create_connection(("127.0.0.1", port), 30) as stranger:
        stranger.sendall(struct.pack(">q", 8 + len(request)) + request)
        answer = stranger.recv(4096)
    # A failure of that request: it was taken for a step of an authentication, and was none.
    assert answer[8:17] == struct.pack(">bq", 5, 7)
    assert b"Expected SaslMessage" in answer


def test_what_the_caller_says_counts_but_for_what_results_depend_on() -> None:
    conf = session_conf(SparkSettings(conf={"spark.ui.enabled": "true", TIME_ZONE: "Asia/Tokyo"}), JAVA, None)
    assert (conf["spark.ui.enabled"], conf[TIME_ZONE]) == ("true", "UTC")


def test_workers_of_a_cluster_may_have_another_python() -> None:
    conf = {"spark.pyspark.python": "/opt/python"}
    on_cluster = session_conf(SparkSettings(master="spark://10.0.0.7:7077", conf=conf), JAVA, None)
    assert on_cluster["spark.pyspark.python"] == "/opt/python"


def test_a_session_that_is_there_is_taken_and_given_what_results_depend_on(spark: SparkSession) -> None:
    before = dict(os.environ)
    try:
        spark.conf.set(TIME_ZONE, "Asia/Tokyo")
        assert open_session(SparkSettings(cores=7)) is spark
        assert {name: spark.conf.get(name) for name in NEEDED} == NEEDED
    finally:
        spark.conf.set(TIME_ZONE, "UTC")
    assert dict(os.environ) == before


def test_what_it_is_too_late_for_is_named(spark: SparkSession) -> None:
    needed = {**NEEDED, "spark.sql.warehouse.dir": "/elsewhere"}
    with pytest.raises(ConfigError, match=r"from its start: --conf spark\.sql\.warehouse\.dir=/elsewhere$"):
        ensure_needed(spark, needed)


def test_no_folder_of_spark_is_made_where_we_are(spark: SparkSession) -> None:
    assert not Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")).is_relative_to(Path.cwd())


def test_an_archive_belongs_to_one_java(tmp_path: Path) -> None:
    archive = archive_path(JAVA, tmp_path)
    archive.touch()
    assert archive.name.startswith(f"spark-{pyspark.__version__}-java-21.0.4-")
    assert archive_options(JAVA, tmp_path) == [f"-XX:SharedArchiveFile={archive}"]
    assert archive_options(Java(Path("/opt/other"), 21, "21.0.4", "PATH"), tmp_path) == []
    assert archive_options(JAVA, None) == []


def run_launcher(java: Java, options: list[str]) -> subprocess.CompletedProcess[str]:
    """The smallest program in Spark's jars, which says by which command it would start another."""
    main = ["-cp", f"{JARS}/*", "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version"]
    command = [str(java.home / "bin" / "java"), *options, *main]
    environment = {"SPARK_HOME": str(JARS.parent), "SPARK_SCALA_VERSION": "2.13"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("environment", [None, {"PATH": "/nonexistent"}], ids=["java found", "java of the wheel"])
def test_classes_come_from_an_archive_that_was_recorded(environment: dict[str, str] | None, tmp_path: Path) -> None:
    java = find_java(environment)
    ensure_base(java, tmp_path, tmp_path / "draft.jsa")
    recorded = run_launcher(java, recording_options(java, tmp_path, archive_path(java, tmp_path)))
    assert recorded.returncode == 0, recorded.stderr
    used = run_launcher(java, [*archive_options(java, tmp_path), "-Xlog:class+load"])
    assert "org.apache.spark.launcher.Main source: shared objects file (top)" in used.stdout


def test_a_damaged_archive_costs_neither_the_start_nor_a_word(tmp_path: Path) -> None:
    java = find_java()
    archive_path(java, tmp_path).write_bytes(b"\x00" * 8192)
    used = run_launcher(java, [*archive_options(java, tmp_path), "-Xlog:disable"])
    assert (used.returncode, used.stderr) == (0, "")


def test_a_java_that_came_with_an_archive_needs_no_other(tmp_path: Path) -> None:
    (tmp_path / "lib" / "server").mkdir(parents=True)
    java = Java(tmp_path, 21, "21.0.4", "PATH")
    assert base_archive(java, tmp_path) == tmp_path / f"base-of-{archive_path(java, tmp_path).name}"
    (tmp_path / "lib" / "server" / "classes.jsa").touch()
    assert base_archive(java, tmp_path) is None


def test_the_training_does_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    exercise(spark, tmp_path)
    assert spark.table("joined").count() == 7
    spark.catalog.dropTempView("joined")
