"""The guide, task by task, as a stranger follows it: its commands are run, and its settings serve.

Hosts, ports and places are replaced by those of a server of the test; nothing else is. What needs root, systemd or
Docker is compared with the files that it is about. A command that no test here takes is a failure of its section's
test, since each takes all of them. The commands of "Ask the tables" are run by
`tests/pipeline/reports/test_tasks_of_the_guide.py`, where there is a Spark.
"""

import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from penstock.access.keys import key_line
from penstock.cli import main
from tests.interop.ffmpeg_copies import ffmpeg_command, run_cleanly
from tests.interop.test_server_quickstart import FIRST_PICTURE, ffplay_command
from tests.support.browser import browser
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import find_program, run_to_end, running
from tests.support.tls import Files
from tests.test_architecture import REPOSITORY
from tests.test_contrib import unit
from tests.test_docs import DOCS, FENCE, table_rows, text_of
from tests.web.watch.watching import another_site, wait_for_picture

GUIDE = text_of(DOCS / "18-guide.md")
HOST = "live.example.org"
HTTPS = f"https://{HOST}:8443"
KEY = "c3wfy5ujfvxag4w3av4aj22mn5ft76ej"
PENSTOCK = (sys.executable, "-m", "penstock")
WITHIN_S = 30.0
KINDS = {
    "": "text/html",
    ".m3u8": "application/vnd.apple.mpegurl",
    ".flv": "video/x-flv",
    ".jpg": "image/jpeg",
}
FILM = (
    *("-f", "lavfi", "-i", "testsrc=size=128x72:rate=10:duration=60", "-f", "lavfi", "-i", "sine=duration=60"),
    *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "10", "-c:a", "aac"),
)


def section(title: str) -> str:
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL)
    return str(text)


def blocks(title: str, language: str) -> list[str]:
    return [block for of, block in FENCE.findall(section(title)) if of == language]


def commands(title: str) -> list[str]:
    return [line for block in blocks(title, "sh") for line in block.splitlines()]


class Served(NamedTuple):
    server: PenstockServer
    http: str

    def here(self, text: str) -> str:
        """An address or a command of the guide, at this server."""
        rtmp = f"rtmp://127.0.0.1:{self.server.port}/"
        return text.replace(HTTPS, f"http://{self.http}").replace(f"rtmp://{HOST}/", rtmp)


@contextmanager
def served(folder: Path, config: str) -> Iterator[Served]:
    with penstock_server(folder, ["--http", "127.0.0.1:0"], config) as server:
        yield Served(server, str(server.wait_for_line("server started")["http"]))


def command_of(text: str) -> list[str]:
    """What a shell makes of it, with our own programs in place of those on the path."""
    program, *words = shlex.split(text)
    return [*PENSTOCK, *words] if program == "penstock" else [find_program(program, program), *words]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("film")
    run_cleanly(ffmpeg_command(*FILM, folder / "film.mp4"), folder / "film.log")
    return folder / "film.mp4"


def publish_command(served: Served, film: Path) -> list[str]:
    (publish,) = commands("Let only my keys publish")
    return command_of(served.here(publish).replace("film.mp4", str(film)))


@pytest.mark.parametrize(
    ("title", "number"),
    [(t, n) for t in re.findall(r"^## (.+)$", GUIDE, re.MULTILINE) for n in range(len(blocks(t, "toml")))],
)
def test_settings_of_the_guide_are_a_valid_configuration(title: str, number: int, tmp_path: Path) -> None:
    # A certificate that is named has to be there.
    Files.made_in(tmp_path)
    config = blocks(title, "toml")[number].replace("/etc/penstock/", f"{tmp_path}/")
    (tmp_path / "penstock.toml").write_text(config, encoding="utf-8")
    assert main(["config", "check", "--config", str(tmp_path / "penstock.toml")]) == 0


def test_a_server_with_these_settings_answers_to_its_name_over_tls(tmp_path: Path) -> None:
    *_, check, _, _, health, _, _ = commands("Put it on a server")
    (config,) = blocks("Put it on a server", "toml")
    files = Files.made_in(tmp_path)
    config = config.replace("/etc/penstock/", f"{tmp_path}/")
    (tmp_path / "checked.toml").write_text(config, encoding="utf-8")
    assert check.startswith("/opt/penstock/bin/penstock ")
    checked = command_of(
        check.replace("/opt/penstock/bin/", "").replace("/etc/penstock/penstock.toml", f"{tmp_path}/checked.toml")
    )
    run_to_end(checked, tmp_path / "check.log", WITHIN_S)
    options = ["--http", "127.0.0.1:0", "--rtmps", "127.0.0.1:0"]
    files.authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    with penstock_server(tmp_path, options, config) as server:
        port = str(server.wait_for_line("server started")["https"]).rpartition(":")[2]
        curl = command_of(health.replace(f"{HOST}:8443", f"localhost:{port}"))
        run_to_end([*curl, "--fail", "--cacert", str(tmp_path / "authority.pem")], tmp_path / "curl.log", WITHIN_S)
        trusted = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
        with httpx.Client(verify=trusted, trust_env=False, timeout=WITHIN_S) as client:
            for name, status in ((HOST, 200), ("other.example.org", 421)):
                url = f"https://localhost:{port}/api/v1/streams"
                assert client.get(url, headers={"Host": name}).status_code == status, name
        publish = [*PENSTOCK, "publish", server.url("main"), "--test-pattern", "--size", "64x64", "--seconds", "1"]
        with running(publish, tmp_path / "publish.log") as program:
            assert program.wait_for_exit(WITHIN_S) != 0


def test_the_commands_of_root_are_about_files_and_names_that_are_there() -> None:
    useradd, venv, pip, folder, config, cert, key, _, cp, enable, _, build, run = commands("Put it on a server")
    service = unit("penstock.service")["Service"]
    assert useradd.split()[-1] == service["User"] == service["Group"]
    assert useradd.split()[3] == f"/var/lib/{service['StateDirectory']}" == service["ExecStart"].split()[-1]
    place = venv.split()[-1]
    program, _, _, config_path, *_ = service["ExecStart"].split()
    assert program == f"{place}/bin/penstock"
    assert pip == f"{place}/bin/pip install --constraint constraints.txt '.[web,pipeline]'"
    assert (REPOSITORY / "constraints.txt").exists()
    extras = re.findall(r"^(\w+) = \[$", text_of(REPOSITORY / "pyproject.toml"), re.MULTILINE)
    assert {"web", "pipeline"} <= set(extras)
    assert config.split()[-1] == config_path
    assert config_path.startswith(folder.split()[-1] + "/")
    (toml,) = blocks("Put it on a server", "toml")
    assert set(re.findall(r'^(?:cert|key) = "(.+)"$', toml, re.MULTILINE)) == {cert.split()[-1], key.split()[-1]}
    assert (cert.split()[-2], key.split()[-2]) == ("fullchain.pem", "privkey.pem")
    assert key.split()[4] == key.split()[6] == service["User"]
    assert (REPOSITORY / cp.split()[1]).exists()
    assert cp.split()[2] == "/etc/systemd/system/"
    assert enable == "systemctl enable --now penstock.service"
    assert "HUP" in service["ExecReload"]
    dockerfile = text_of(REPOSITORY / "Dockerfile")
    assert f"#   {build}\n#   {run}\n" in dockerfile


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_nothing_wrong_with_the_unit_that_is_copied(tmp_path: Path) -> None:
    (cp,) = (each for each in commands("Put it on a server") if each.startswith("cp "))
    copied = tmp_path / "penstock.service"
    text = text_of(REPOSITORY / cp.split()[1])
    copied.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE), encoding="ascii")
    done = subprocess.run(["systemd-analyze", "verify", str(copied)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_firewall_opens_what_the_settings_listen_on() -> None:
    (toml,) = blocks("Put it on a server", "toml")
    rows = table_rows(section("Put it on a server"))
    assert [port for port, _ in rows] == re.findall(r'^listen = ":(\d+)"$', toml, re.MULTILINE)


def test_the_key_publishes_and_nothing_else_does(tmp_path: Path, film: Path) -> None:
    (shown,) = blocks("Let only my keys publish", "")
    (config,) = blocks("Let only my keys publish", "toml")
    assert shown.splitlines()[1] == KEY
    assert shown.splitlines()[-1] == f'"{key_line("studio", KEY)}"'
    run_to_end(command_of(shown.splitlines()[0].removeprefix("$ ")), tmp_path / "key.log", WITHIN_S)
    with served(tmp_path, config) as here:
        command = publish_command(here, film)
        for wrong in (command[-1].partition("?")[0], command[-1].replace("/live/", "/other/")):
            with running([*command[:-1], wrong], tmp_path / "refused.log") as refused:
                assert refused.wait_for_exit(WITHIN_S) != 0
        with running(command, tmp_path / "publish.log"):
            here.server.wait_for_line("publish started: live/main")
            without = "\n".join(line for line in config.splitlines() if not line.startswith("keys"))
            (tmp_path / "penstock.toml").write_text(without, encoding="utf-8")
            here.server.program.process.send_signal(signal.SIGHUP)
            here.server.wait_for_line("publish stopped: live/main")
        assert KEY not in here.server.program.log_text()


def test_a_stream_comes_to_three_places_and_status_has_a_line_for_each(tmp_path: Path, film: Path) -> None:
    (config,) = blocks("Restream to three places", "toml")
    (status,) = commands("Restream to three places")
    (tmp_path / "target").mkdir()
    for name in ("youtube", "twitch"):
        (tmp_path / f"{name}.key").write_text(f"key-of-{name}\n", encoding="utf-8")
    with penstock_server(tmp_path / "target") as target:
        config = config.replace("/etc/penstock/", f"{tmp_path}/")
        # All three are one server, which takes streams of any app.
        config = re.sub(r'"rtmps?://[^/]+/', f'"rtmp://127.0.0.1:{target.port}/', config)
        with served(tmp_path, config) as here, running(publish_command(here, film), tmp_path / "publish.log"):
            for path in ("live2/key-of-youtube", "app/key-of-twitch", "live/main"):
                target.wait_for_line(f"publish started: {path}")
            told = run_to_end(command_of(here.here(status)), tmp_path / "status.log", WITHIN_S)
    for name in ("youtube", "twitch", "backup"):
        assert len([line for line in told.splitlines() if name in line]) == 1, told
    assert "key-of" not in told


def test_every_address_is_answered_players_show_it_and_so_does_a_frame(tmp_path: Path, film: Path) -> None:
    (frame,) = blocks("Watch in a browser", "html")
    players = [each for each in commands("Watch in a browser") if each.startswith("ffplay ")]
    addresses = [row[0].strip("`") for row in table_rows(section("Watch in a browser"))]
    assert len(addresses) == 4
    with served(tmp_path, "") as here, running(publish_command(here, film), tmp_path / "publish.log"):
        here.server.wait_for_line("publish started: live/main")
        for number, player in enumerate(players):
            program, url = here.here(player).split()
            assert program == "ffplay"
            with running(ffplay_command(url), tmp_path / f"play-{number}.log") as playing:
                playing.wait_for_log(FIRST_PICTURE, WITHIN_S)
        for address in addresses:
            with httpx.stream("GET", here.here(address), trust_env=False, timeout=WITHIN_S) as answer:
                kind = answer.headers["Content-Type"].partition(";")[0]
                assert (answer.status_code, kind) == (200, KINDS[Path(address).suffix]), address
        with browser() as chromium, another_site(here.here(frame)) as site:
            page = chromium.page()
            page.goto(site)
            wait_for_picture(page.frames[1])
            page.goto(here.here(addresses[0]))
            wait_for_picture(page)
            assert chromium.seen.console_errors == []


def test_a_signed_link_lets_in_and_nobody_is_without(tmp_path: Path, film: Path) -> None:
    (config,) = blocks("Watch in a browser", "toml")
    secret, owner, sign = (each for each in commands("Watch in a browser") if not each.startswith("ffplay "))
    addresses = [row[0].strip("`") for row in table_rows(section("Watch in a browser"))]
    # The server runs as that user, and openssl makes files for their owner alone.
    assert owner == f"chown {unit('penstock.service')['Service']['User']}: {secret.split()[-2]}"
    run_to_end(command_of(secret.replace("/etc/penstock/", f"{tmp_path}/")), tmp_path / "openssl.log", WITHIN_S)
    config = config.replace("/etc/penstock/", f"{tmp_path}/")
    with served(tmp_path, config) as here, running(publish_command(here, film), tmp_path / "publish.log"):
        here.server.wait_for_line("publish started: live/main")
        # The file that the server was started with.
        signing = command_of(sign.replace("/etc/penstock/", f"{tmp_path}/"))
        link = run_to_end(signing, tmp_path / "sign.log", WITHIN_S).strip()
        query = link.partition("?")[2]
        for address in addresses[1:]:
            for url, status in ((f"{here.here(address)}?{query}", 200), (here.here(address), 401)):
                with httpx.stream("GET", url, trust_env=False, timeout=WITHIN_S) as answer:
                    assert answer.status_code == status, url
