"""The supervisor with real processes: what web asks of it, and what it says about who may."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.serve.supervisor.supervised import supervised


def test_a_drain_lets_nobody_in_and_ends_the_server_when_the_last_one_leaves(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        client, _ = server.connect()
        address = server.started()["rtmp"].split(":")
        os.kill(server.wait_for("web started")["pid"], signal.SIGUSR1)
        assert server.wait_for("draining heard")["connections"] == 1
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address[0], int(address[1])))
        assert server.connect("http")[1] is not None
        began_at = time.monotonic()
        client.close()
        assert server.end() == 0
        assert time.monotonic() - began_at < 4.0
        assert server.lines[-1]["msg"] == "server stopped"


def test_a_drain_ends_the_server_in_time_though_somebody_stays(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        server.connect()
        began_at = time.monotonic()
        os.kill(server.wait_for("web started")["pid"], signal.SIGUSR1)
        assert server.end() == 0
        assert 4.9 < time.monotonic() - began_at < 15
        assert server.lines[-1]["msg"] == "server stopped"


def test_a_new_web_process_hears_that_the_server_drains(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        server.connect()
        web = server.wait_for("web started")["pid"]
        os.kill(web, signal.SIGUSR1)
        server.wait_for("draining heard")
        os.kill(web, signal.SIGKILL)
        server.wait_for("draining heard", 2)


def test_web_is_told_where_values_come_from_and_may_ask_for_a_reload(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[limits]\nmax_connections = 50\n")
    with supervised(tmp_path, "--config", str(file)) as server:
        web = server.wait_for("web started")["pid"]
        assert server.wait_for("origins")["limits.max_connections"].endswith(" line 2")
        file.write_text("[limits]\n\nmax_connections = 2\n")
        os.kill(web, signal.SIGUSR2)
        assert server.wait_for("reloaded") == {"msg": "reloaded", "request": 7, "complaint": None}
        assert server.wait_for("origins", 2)["limits.max_connections"].endswith(" line 3")
        file.write_text("[limits]\nmax_connections = many\n")
        os.kill(web, signal.SIGUSR2)
        assert "no TOML" in server.wait_for("reloaded", 2)["complaint"]


OPEN = "anybody who reaches this server may publish and play: there is no [access]"


def test_a_server_without_rules_that_strangers_can_reach_says_so_at_each_start(tmp_path: Path) -> None:
    with supervised(tmp_path / "a", "--rtmp", "0.0.0.0:0") as server:
        line = server.wait_for(OPEN)
        assert (line["level"], line["rtmp"]) == ("WARNING", server.started()["rtmp"])
    with supervised(tmp_path / "b") as server:
        server.started()
        assert OPEN not in {line["msg"] for line in server.lines}
    file = tmp_path / "penstock.toml"
    file.write_text('[access.live]\nplay = ["open"]\n')
    with supervised(tmp_path / "c", "--rtmp", "0.0.0.0:0", "--config", str(file)) as server:
        server.started()
        assert OPEN not in {line["msg"] for line in server.lines}
