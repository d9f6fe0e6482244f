"""The units for systemd and the Dockerfile, as far as they can be judged without running them."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.serve.supervisor.listeners import NAMES

REPOSITORY = Path(__file__).parent.parent
UNITS = REPOSITORY / "contrib" / "systemd"
MAX_EXPOSURE = 2.0
"""Of 10, as systemd-analyze counts what a service may do. Unsandboxed it is 9.6."""

has_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here: the units were only parsed"
)


class _Unit(configparser.RawConfigParser):
    """A unit's sections and keys. Unlike systemd, it knows a key of each section once."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit(name: str) -> configparser.RawConfigParser:
    parsed = _Unit(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parsed.read_string((UNITS / name).read_text(encoding="ascii"))
    return parsed


def test_the_service_is_told_of_and_sandboxed() -> None:
    service = unit("penstock.service")
    assert set(service) - {"DEFAULT"} == {"Unit", "Service", "Install"}
    assert service["Service"]["Type"] == "notify"
    assert service["Service"]["KillMode"] == "mixed"
    assert float(service["Service"]["WatchdogSec"]) >= 10
    strict = {
        "NoNewPrivileges": "true",
        "ProtectSystem": "strict",
        "ProtectHome": "true",
        "PrivateDevices": "true",
        "MemoryDenyWriteExecute": "true",
        "CapabilityBoundingSet": "",
        "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
        "User": "penstock",
    }
    assert {key: service["Service"][key] for key in strict} == strict


def test_every_line_of_the_units_is_a_comment_a_section_or_a_key() -> None:
    line = re.compile(r"|#.*|\[(Unit|Service|Socket|Install)\]|[A-Z][A-Za-z]+=\S*( \S+)*")
    for path in UNITS.iterdir():
        assert [text for text in path.read_text(encoding="ascii").splitlines() if not line.fullmatch(text)] == []


def test_sockets_have_names_that_the_server_knows() -> None:
    socket = unit("penstock.socket")["Socket"]
    assert socket["FileDescriptorName"] in NAMES
    assert socket["Service"] == "penstock.service"


@has_systemd
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for path in UNITS.iterdir():
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", path.read_text(encoding="ascii"), flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text, encoding="ascii")
    names = [str(tmp_path / path.name) for path in UNITS.iterdir()]
    done = subprocess.run(["systemd-analyze", "verify", *names], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@has_systemd
def test_systemd_counts_little_that_the_service_may_do() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNITS / "penstock.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= MAX_EXPOSURE


def test_the_dockerfile_installs_the_package_and_says_that_it_was_not_run() -> None:
    text = (REPOSITORY / "Dockerfile").read_text(encoding="ascii")
    assert "was not run" in text.splitlines()[0]
    assert "pip install --no-cache-dir --constraint constraints.txt '.[web]'" in text
    assert "\nUSER penstock\n" in text
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    assert [name for names in copied for name in names.split() if not (REPOSITORY / name).exists()] == []
