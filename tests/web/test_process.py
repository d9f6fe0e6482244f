"""The web process as its supervisor sees it: told who it is, told figures, told to end, or simply left alone."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from penstock.control import messages
from penstock.control.figures import Figures
from penstock.control.live import SentAway, WebToWorker
from penstock.control.messages import (
    Alive,
    Entrance,
    HttpConnection,
    Linked,
    Listening,
    PastFigures,
    Reload,
    Stop,
    Welcome,
)
from penstock.control.parcels import Parcel, ParcelReader, write_parcel
from tests.support.rtmp_driver import DEADLINE_S, LOOPBACK
from tests.web.test_metrics import of_pipeline, samples_of
from tests.web.web_process import Web, read_all, send_message, start_web, status_of, web_process

MAX_PSS_BYTES = 65_000_000


def metrics(web: Web) -> dict[str, float]:
    status, text = web.ask("/metrics")
    assert status == 200
    return samples_of(text.encode())


def stderr_of(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    with process.stderr:
        return process.stderr.read()


def test_it_is_ready_and_then_tells_that_it_is_alive_each_second(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        heard = [web.heard() for _ in range(3)]
    assert heard == [Alive({})] * 3


def test_who_was_sent_away_by_a_worker_is_told_to_the_others_alone(tmp_path: Path) -> None:
    def heard_of(link: socket.socket) -> list[WebToWorker]:
        """What came until an order to all workers."""
        reader, found = ParcelReader(), list[WebToWorker]()
        while not (found and isinstance(found[-1], SentAway) and found[-1].client == "last"):
            reader.feed(link.recv(1 << 16))
            while (parcel := reader.next_parcel()) is not None:
                found.append(msgspec.msgpack.decode(parcel.body, type=WebToWorker))
        return [each for each in found if isinstance(each, SentAway)]

    first, last = (SentAway(b"live/a", "192.0.2.9", client, None) for client in ("first", "last"))
    with web_process(tmp_path, workers=2) as web:
        second, theirs = socket.socketpair()
        second.settimeout(DEADLINE_S)
        with second, theirs:
            web.tell(Linked(2), theirs.fileno())
            web.hear_until(lambda message: isinstance(message, Alive))
            send_message(web.worker, first)
            send_message(web.worker, last)
            assert heard_of(second) == [first, last]
            send_message(second, last)
            assert heard_of(web.worker) == [last]


def test_figures_of_workers_are_served_as_totals(tmp_path: Path) -> None:
    with web_process(tmp_path, workers=2) as web:
        web.tell_figures(1, "b1", viewers=3, sent_bytes=100, busy_share=0.5)
        web.tell_figures(2, "b2", viewers=4, sent_bytes=10)
        web.tell(Entrance(os.getpid(), {"connections": 2}, 7))
        samples = metrics(web)
        assert (samples["penstock_viewers"], samples["penstock_sent_bytes_total"]) == (7, 110)
        assert samples["penstock_worker_busy_share worker=1"] == 0.5
        assert samples["penstock_limits_hit_total limit=connections"] == 2
        assert web.ask("/healthz") == (200, "ok\n")
        web.tell(messages.Figures(2, "b2", os.getpid(), None))
        assert web.ask("/healthz") == (503, "worker 2 is missing\n")
        assert web.ask("/readyz") == (200, "ready\n")
        web.tell_figures(2, "b3", viewers=1, sent_bytes=1)
        time.sleep(1.1)
        samples = metrics(web)
    assert (samples["penstock_viewers"], samples["penstock_sent_bytes_total"]) == (4, 111)


def test_a_worker_that_has_told_nothing_for_five_seconds_hangs(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        web.tell_figures()
        assert web.ask("/healthz") == (200, "ok\n")
        time.sleep(5.2)
        assert web.ask("/healthz") == (503, "worker 1 does not answer\n")
        assert web.ask("/readyz") == (503, "no worker is ready\n")
        assert "penstock_viewers" in metrics(web)


def test_all_processes_of_the_server_are_counted(tmp_path: Path) -> None:
    with web_process(tmp_path) as web, subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as other:
        alone = metrics(web)["process_resident_memory_bytes"]
        web.tell_figures(pid=other.pid)
        time.sleep(1.1)
        together = metrics(web)["process_resident_memory_bytes"]
        other.kill()
    assert together > alone + 1_000_000


def test_figures_of_the_pipeline_come_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "pipeline-figures.json").write_text('{"runs": 7}', encoding="utf-8")
    with web_process(tmp_path) as web:
        assert of_pipeline(metrics(web))["runs_total"] == 7


def test_while_the_server_stops_probes_hear_of_it_until_the_last_worker_is_gone(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        web.tell_figures()
        web.tell(Stop(is_at_once=False))
        assert web.ask("/readyz") == (503, "shutting down\n")
        assert web.ask("/healthz") == (200, "ok\n")
        web.tell(messages.Figures(1, "b1", os.getpid(), None))
        assert web.wait_for_end() == 0


def test_it_ends_at_once_when_told_so(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        web.tell_figures()
        web.tell(Stop(is_at_once=True))
        assert web.wait_for_end() == 0


def test_it_ends_with_its_supervisor(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        web.supervisor.close()
        assert web.wait_for_end() == 0


def test_signals_for_the_whole_terminal_are_left_to_the_supervisor(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        web.tell_figures()
        for number in (signal.SIGINT, signal.SIGHUP):
            web.process.send_signal(number)
        assert web.ask("/readyz") == (200, "ready\n")


def test_when_it_is_killed_its_clients_and_its_workers_hear_of_it(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        client = web.connect()
        # By its answer it has also taken the connection before.
        web.ask("/healthz")
        web.process.kill()
        web.process.wait()
        with client:
            assert client.recv(1) == b""
        assert web.worker.recv(1) == b""
        while web.heard() is not None:
            pass


def test_a_worker_that_is_gone_costs_nothing_and_another_takes_its_place(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        web.tell_figures()
        web.link_worker()
        assert web.ask("/readyz") == (200, "ready\n")


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff\0\0", write_parcel(Parcel(b"\xc1")), write_parcel(Parcel(b"\x90"))]
)
def test_a_worker_that_is_not_understood_loses_its_link_alone(tmp_path: Path, data: bytes) -> None:
    with web_process(tmp_path) as web:
        web.tell_figures()
        web.worker.sendall(data)
        assert web.worker.recv(1) == b""
        web.link_worker()
        assert web.ask("/readyz") == (200, "ready\n")


def test_a_connection_without_its_socket_ends_the_link(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        send_message(web.worker, HttpConnection("203.0.113.7:5000", "http"))
        assert web.worker.recv(1) == b""


def test_what_is_handed_over_is_closed_when_it_is_no_socket(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    with web_process(tmp_path) as web:
        send_message(web.worker, HttpConnection("203.0.113.7:5000", "http"), write_end)
        os.close(write_end)
        assert os.read(read_end, 1) == b""
        os.close(read_end)
        assert web.worker.recv(1) == b""


def test_a_reload_is_taken_over_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    with web_process(tmp_path, http={"trusted_proxies": ["10.0.0.0/8"]}) as web:
        web.tell_figures()
        for proxy in (LOOPBACK, "nobody"):
            web.tell(Reload({"http": {"trusted_proxies": [proxy]}}))
            assert web.ask("/readyz", "GET", "X-Forwarded-For: 198.51.100.9") == (200, "ready\n")
        assert web.process.stderr is not None
        assert "configuration not reloaded" in web.process.stderr.readline()


def test_a_wrong_configuration_is_told_and_ends_it() -> None:
    process, supervisor = start_web()
    with supervisor:
        send_message(supervisor, Welcome(0, "w1", "l1", 1, {"http": {"listen": 5}}, []))
        assert process.wait(DEADLINE_S) == 1
    assert "HTTP cannot be served" in stderr_of(process)


def test_a_uvicorn_that_works_otherwise_is_told_and_ends_it(tmp_path: Path) -> None:
    program = (
        "from uvicorn.protocols.http.h11_impl import H11Protocol\n"
        "H11Protocol.data_received = lambda self, data: self.transport.close()\n"
        "import sys\n"
        "from penstock.web.__main__ import main\n"
        "sys.exit(main())\n"
    )
    process, supervisor = start_web(program)
    with supervisor:
        send_message(supervisor, Welcome(0, "w1", "l1", 1, {"server": {"data_dir": str(tmp_path)}}, []))
        assert process.wait(DEADLINE_S) == 1
        assert supervisor.recv(1) == b""
    assert '"HTTP cannot be served","reason":"the answer was b\'\'","uvicorn":"0.54.0"' in stderr_of(process)


def get(listener: socket.socket, path: str) -> tuple[int, str]:
    """Ask whoever accepts there."""
    with socket.create_connection(listener.getsockname(), DEADLINE_S) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = read_all(client)
    return status_of(answer), answer.split(b"\r\n\r\n", 1)[1].decode()


def test_both_ways_lead_to_the_same_answers(tmp_path: Path) -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as listener,
        web_process(tmp_path, http={"web_listen": ":1"}, listener=listener) as web,
    ):
        web.tell_figures()
        assert web.ask("/readyz") == get(listener, "/readyz") == (200, "ready\n")
        for number in (signal.SIGINT, signal.SIGHUP):
            web.process.send_signal(number)
        assert get(listener, "/readyz") == (200, "ready\n")
        web.tell(Stop(is_at_once=False))
        assert get(listener, "/readyz") == (503, "shutting down\n")
        web.tell(messages.Figures(1, "b1", os.getpid(), None))
        assert web.wait_for_end() == 0


def test_a_port_whose_certificate_cannot_be_used_is_told_and_ends_it(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("bad")
    http = {"web_listen": ":1", "cert": str(bad), "key": str(bad)}
    process, supervisor = start_web()
    with supervisor, socket.create_server((LOOPBACK, 0)) as listener:
        config = {"server": {"data_dir": str(tmp_path)}, "http": http}
        send_message(supervisor, Welcome(0, "w1", "l1", 1, config, []))
        send_message(supervisor, Listening(), listener.fileno())
        assert process.wait(DEADLINE_S) == 1
    assert f'"HTTP cannot be served","reason":"http.cert: {bad} holds no certificate in PEM"' in stderr_of(process)


def test_what_workers_counted_before_it_began_is_in_the_totals_once(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        web.tell(PastFigures(Figures(sent_bytes=1000, limits_hit={"bytes": 3}).to_plain()))
        web.tell_figures(1, "b2", sent_bytes=10)
        samples = metrics(web)
        assert samples["penstock_sent_bytes_total"] == 1010
        assert samples["penstock_limits_hit_total limit=bytes"] == 3
        web.tell(messages.Figures(1, "b2", os.getpid(), None))
        web.tell_figures(1, "b3", sent_bytes=1)
        time.sleep(1.1)
        assert metrics(web)["penstock_sent_bytes_total"] == 1011


def test_a_message_before_the_first_one_ends_it() -> None:
    process, supervisor = start_web()
    with supervisor:
        send_message(supervisor, Stop(is_at_once=False))
        assert process.wait(DEADLINE_S) == 0
    stderr_of(process)


def test_many_connections_at_once_are_all_answered(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        web.tell_figures()
        clients = [web.connect() for _ in range(60)]
        for client in clients:
            client.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        assert [read_all(client)[-6:] for client in clients] == [b"ready\n"] * 60
        for client in clients:
            client.close()


def test_it_is_small(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        web.tell_figures()
        metrics(web)
        rollup = Path(f"/proc/{web.process.pid}/smaps_rollup").read_text(encoding="ascii")
    pss_kb = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    assert pss_kb * 1024 <= MAX_PSS_BYTES
