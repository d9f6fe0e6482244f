"""The supervisor with real processes: killed, stopped, balanced, limited, reloaded and ended."""

import os
import signal
import socket
import time
from collections import Counter
from pathlib import Path

from penstock.serve.supervisor.control_socket import connect
from tests.serve.supervisor.supervised import read_line, supervised, wait_until_dead


def test_of_two_hundred_connections_each_of_two_workers_has_a_hundred(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        workers = Counter(who["worker"] for _, who in (server.connect() for _ in range(200)) if who is not None)
        assert workers == {1: 100, 2: 100}
        assert server.process.pid not in {line.get("pid") for line in server.lines}


def test_limits_are_exact_over_both_workers(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[limits]\nmax_connections = 7\nmax_connections_per_ip = 3\nexempts_loopback = false\n")
    with supervised(tmp_path, "--config", str(file)) as server:
        clients = [server.connect(source=f"127.0.0.{host}") for host in (1, 1, 1, 1, 2, 2, 2, 3, 3, 3)]
        assert [who is not None for _, who in clients] == [*[True] * 3, False, *[True] * 4, False, False]
        clients[0][0].close()
        time.sleep(0.3)
        assert server.connect(source="127.0.0.1")[1] is not None
        assert server.connect(source="127.0.0.4")[1] is None
        assert server.wait_for("Limit hit: connections per address")["reason"] == "127.0.0.1 has 3"


def test_those_who_were_turned_away_are_told_to_one_worker_for_its_facts(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[limits]\nmax_connections = 1\n")
    with supervised(tmp_path, "--config", str(file)) as server:
        client, _ = server.connect()
        for _ in range(3):
            assert server.connect()[1] is None
        until = time.monotonic() + 5
        while sum(each[2] for each in server.told(client) if each[0] == "turned away") < 3:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert ["turned away", "connections"] in [each[:2] for each in server.told(client)]


def test_each_worker_hears_once_a_second_how_busy_the_others_are(tmp_path: Path) -> None:
    with supervised(tmp_path, "--workers", "3") as server:
        clients = [server.connect()[0] for _ in range(3)]
        until = time.monotonic() + 5
        loads: list[object] = []
        while loads != [1.25, 1.0, 0.75]:
            assert time.monotonic() < until, loads
            time.sleep(0.1)
            told = [[each[1] for each in server.told(client) if each[0] == "load beside"] for client in clients]
            loads = [each[-1] if each else None for each in told]


def test_one_that_its_proxy_places_over_a_limit_is_refused_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[limits]\nmax_connections_per_ip = 1\n")
    with supervised(tmp_path, "--config", str(file), "--workers", "1") as server:
        (first, _), (second, who) = server.connect(), server.connect()
        assert who is not None
        first.sendall(b"from 192.0.2.1:99")
        time.sleep(0.2)
        second.sendall(b"from 192.0.2.1:98")
        time.sleep(0.2)
        assert ["refused", who["number"], "connections per address"] in server.told(first)


def test_a_killed_worker_is_told_of_and_is_back_at_once_with_another_boot(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        (kept, of_one), (lost, of_two) = server.connect(), server.connect()
        assert of_one is not None
        assert of_two is not None
        assert (of_one["recovers"], of_two["recovers"]) == (["*"], [])
        killed_at = time.monotonic()
        os.kill(of_two["pid"], signal.SIGKILL)
        line = server.wait_for("worker lost")
        assert (line["worker"], line["pid"], line["signal"]) == (2, of_two["pid"], 9)
        assert server.wait_for("worker started", 3)["worker"] == 2
        assert time.monotonic() - killed_at < 5
        assert lost.recv(1) == b""
        _, again = server.connect()
        assert again is not None
        assert (again["worker"], again["recovers"]) == (2, [of_two["boot_id"]])
        assert again["boot_id"][:8] == of_two["boot_id"][:8]
        assert again["boot_id"] != of_two["boot_id"]
        assert server.told(kept).count(["linked", 2]) == 2
        assert again["number"] == 3


def test_a_killed_web_process_is_back_and_its_links_too(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        client, _ = server.connect()
        os.kill(server.wait_for("web started")["pid"], signal.SIGKILL)
        assert server.wait_for("web lost")["signal"] == 9
        server.wait_for("web started", 2)
        assert server.told(client).count(["linked", 0]) == 2


def test_a_new_web_process_is_told_what_workers_counted_that_are_gone(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        _, who = server.connect()
        assert who is not None
        assert server.wait_for("past figures")["sent_bytes"] == 0
        for life in (1, 2):
            worker = server.wait_for("worker started", life + 1)
            time.sleep(0.3)  # for its figures
            os.kill(worker["pid"], signal.SIGKILL)
            server.wait_for("worker started", life + 2)
            os.kill(server.wait_for("web started", life)["pid"], signal.SIGKILL)
            assert server.wait_for("past figures", life + 1)["sent_bytes"] == 1000 * life
        live = [line for line in server.lines if line["msg"] == "figures at once"]
        assert {line["sent_bytes"] for line in live} == {1000}


def test_web_is_given_its_port_again_when_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[http]\nweb_listen = "127.0.0.1:0"\n')
    with supervised(tmp_path, "--config", str(file), "--http", "none") as server:
        port = int(server.started()["web_http"].split(":")[1])
        assert server.wait_for("listening")["port"] == port
        os.kill(server.wait_for("web started")["pid"], signal.SIGKILL)
        assert server.wait_for("listening", 2)["port"] == port
        assert "http" not in server.started()


def test_a_port_of_web_that_is_taken_is_told_by_its_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = tmp_path / "penstock.toml"
        file.write_text(f'[http]\nweb_listen = "127.0.0.1:{taken.getsockname()[1]}"\n')
        with supervised(tmp_path, "--config", str(file)) as server:
            assert server.end() == 2
            assert server.texts[-1].startswith("penstock: http.web_listen: cannot listen at 127.0.0.1:")


def test_workers_that_had_to_give_up_their_link_are_given_another(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        (one, _), (two, _) = server.connect(), server.connect()
        one.sendall(b"unlinked 2")
        two.sendall(b"unlinked 7")
        time.sleep(0.2)
        until = time.monotonic() + 5
        while server.told(one).count(["linked", 2]) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert server.told(two).count(["linked", 1]) == 2


def test_a_stopped_worker_is_silent_and_is_replaced(tmp_path: Path) -> None:
    with supervised(tmp_path, silent_s=1.0) as server:
        _, who = server.connect()
        assert who is not None
        os.kill(who["pid"], signal.SIGSTOP)
        assert server.wait_for("a process is silent and is killed")["pid"] == who["pid"]
        assert server.wait_for("worker lost")["signal"] == 9
        assert server.wait_for("worker started", 3)["worker"] == 1


def test_after_all_processes_were_stopped_nobody_is_taken_for_silent(tmp_path: Path) -> None:
    with supervised(tmp_path, silent_s=1.0) as server:
        client, _ = server.connect()
        pids = [line["pid"] for line in server.lines if line["msg"] in ("worker started", "web started")]
        for pid in (server.process.pid, *pids):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5)
        server.process.send_signal(signal.SIGCONT)
        time.sleep(0.4)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.5)
        assert "worker lost" not in {line["msg"] for line in server.lines}
        assert server.told(client).count(["linked", 2]) == 1


def test_connections_wait_in_the_queue_while_the_only_worker_is_replaced(tmp_path: Path) -> None:
    with supervised(tmp_path, "--workers", "1") as server:
        _, who = server.connect()
        assert who is not None
        os.kill(who["pid"], signal.SIGKILL)
        server.wait_for("worker lost")
        _, again = server.connect()
        assert again is not None
        assert again["pid"] != who["pid"]


def test_children_of_a_killed_supervisor_see_its_end(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        server.started()
        pids = [line["pid"] for line in server.lines if line["msg"] in ("worker started", "web started")]
        server.process.kill()
        server.end()
        wait_until_dead(*pids)
        assert len(pids) == 3
    with supervised(tmp_path) as server:
        server.started()


def test_the_first_signal_ends_all_and_the_last_line_says_so(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        server.started()
        server.process.send_signal(signal.SIGINT)
        assert server.end() == 0
        assert server.lines[-1]["msg"] == "server stopped"
        assert "worker lost" not in {line["msg"] for line in server.lines}
        assert not (tmp_path / "control.sock").exists()


def test_a_second_signal_ends_those_who_do_not_heed_the_first(tmp_path: Path) -> None:
    with supervised(tmp_path, kind="deaf") as server:
        server.started()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0
        server.wait_for("stopping at once")


def test_children_that_do_not_end_are_killed_after_a_while(tmp_path: Path) -> None:
    with supervised(tmp_path, kind="deaf", stop_s=0.5) as server:
        server.started()
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0
        server.wait_for("a process did not end in time and is killed", 2)


def test_a_changed_file_reaches_workers_and_those_that_come_later_and_a_wrong_one_changes_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[limits]\nmax_connections = 50\n")
    with supervised(tmp_path, "--config", str(file), "--workers", "1") as server:
        client, who = server.connect()
        assert who is not None
        file.write_text("[limits]\nmax_connections = 2\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("configuration reloaded")
        file.write_text("[limits]\nmax_connections = many\n")
        server.process.send_signal(signal.SIGHUP)
        assert "no TOML" in server.wait_for("configuration not reloaded")["reason"]
        time.sleep(0.2)
        changed = ["reload", {"max_connections": 2}]
        assert [each for each in server.told(client) if each[0] == "reload"] == [changed, changed]
        assert server.connect()[1] is not None
        assert server.connect()[1] is None
        os.kill(who["pid"], signal.SIGKILL)
        server.wait_for("worker started", 2)
        later, _ = server.connect()
        assert [each for each in server.told(later) if each[0] == "reload"] == [changed]


def test_a_worker_that_says_why_it_cannot_start_ends_the_start_with_that_line(tmp_path: Path) -> None:
    with supervised(tmp_path, kind="refusing") as server:
        assert server.end() == 2
        assert server.texts == ["penstock: tls.cert: no such file\n"]


def test_a_worker_that_dies_while_starting_ends_the_start(tmp_path: Path) -> None:
    with supervised(tmp_path, "--workers", "1", kind="dying") as server:
        assert server.end() == 2
        assert server.texts == ["penstock: worker 1 ended with status 3 while starting\n"]


def test_the_status_is_told_to_whoever_asks_at_the_control_socket(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        _, who = server.connect()
        assert who is not None
        assert (tmp_path / "control.sock").stat().st_mode & 0o777 == 0o600
        with connect(tmp_path) as client:
            client.sendall(b'{"ask": "status"}\n')
            status = read_line(client)
        assert status["pid"] == server.process.pid
        assert [each["worker"] for each in status["workers"]] == [1, 2]
        assert [each["connections"] for each in status["workers"]] == [1, 0]
        assert [each["is_ready"] for each in status["workers"]] == [True, True]
        assert status["workers"][0]["boot_id"] == who["boot_id"] == status["life_id"] + who["boot_id"][8:]
        assert status["web"]["pid"] == server.wait_for("web started")["pid"]
        for question, error in ((b"[]\n", "a question is a JSON object"), (b'{"ask":"x"}\n', "unknown question: 'x'")):
            with connect(tmp_path) as client:
                client.sendall(question)
                assert read_line(client) == {"error": error}


def test_a_second_server_on_the_same_data_is_refused_by_one_line(tmp_path: Path) -> None:
    with supervised(tmp_path) as server:
        server.started()
        with supervised(tmp_path) as second:
            assert second.end() == 2
            assert second.texts == [f"penstock: server.data_dir: another server uses {tmp_path}\n"]
        assert server.connect()[1] is not None


def test_a_second_server_that_would_record_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f'[recording]\nfolder = "{tmp_path}/recordings"\nstreams = "all"\n')
    with supervised(tmp_path / "a", "--config", str(file)) as server:
        server.started()
        with supervised(tmp_path / "b", "--config", str(file)) as second:
            assert second.end() == 2
            assert second.texts == [f"penstock: recording: another server records in {tmp_path}/recordings\n"]


def test_an_address_that_is_taken_is_refused_by_one_line(tmp_path: Path) -> None:
    with supervised(tmp_path / "a") as server:
        taken = server.started()["rtmp"]
        with supervised(tmp_path / "b", "--rtmp", taken) as second:
            assert second.end() == 2
            assert second.texts == [f"penstock: rtmp.listen: cannot listen at {taken}: Address already in use\n"]


def test_systemd_is_told_when_the_server_is_ready_reloads_and_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0penstock-test-{os.getpid()}")
        manager.settimeout(20)
        address = f"@penstock-test-{os.getpid()}"
        with supervised(tmp_path, NOTIFY_SOCKET=address, WATCHDOG_USEC="200000") as server:
            seen: set[bytes] = set()
            while not seen >= {b"READY=1", b"WATCHDOG=1"}:
                seen.add(manager.recv(200))
            server.process.send_signal(signal.SIGHUP)
            while not (state := manager.recv(200)).startswith(b"RELOADING=1\nMONOTONIC_USEC="):
                assert state == b"WATCHDOG=1"
            assert manager.recv(200) == b"READY=1"
            server.process.send_signal(signal.SIGTERM)
            while (state := manager.recv(200)) != b"STOPPING=1":
                assert state == b"WATCHDOG=1"


def test_without_http_there_is_no_web_process(tmp_path: Path) -> None:
    with supervised(tmp_path, "--http", "none") as server:
        assert "http" not in server.started()
        assert "web started" not in {line["msg"] for line in server.lines}
