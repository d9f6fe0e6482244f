"""Who may, in a whole server: two workers, a web process that verifies tokens, and everything that a run leaves behind.

Rules are decided in the worker that a client comes to, so each test has clients in both.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest

from penstock.access.keys import key_line
from penstock.access.signing import signature
from penstock.serve.supervisor.control_socket import connect
from tests.support.memory_of import family_of
from tests.support.processes import RunningProgram
from tests.support.raw_clients import RawClient
from tests.support.raw_media import Broadcast
from tests.workers.workers_stage import QUICK, PlacedClients, Workers, send_for, two_workers, wait_for

pytestmark = pytest.mark.alone
"""A web process is back, and has its say, within the five seconds that a question may wait."""

KEY = "kkkkstudiokeyofonehundredsixtybi"
OTHER_KEY = "kkkkanotherkeyonehundredsixtybit"
JWT_SECRET = "a secret of tokens that has more than 32 bytes"
SIGNING_SECRET = "a secret that signs links"
DENIED, FAILED = "NetStream.Publish.Denied", "NetStream.Play.Failed"
WITHIN_S = 2.0
LEEWAY_S = 30
SLACK_S = 1.0
"""What a busy machine may take to tell us."""

Scenario = Callable[[PlacedClients], Any]


def rules(folder: Path, keys: dict[str, str], play: str = '["signed", "jwt", "key"]') -> str:
    lines = json.dumps([key_line(name, key) for name, key in keys.items()])
    return f"""
{QUICK}
[recording]
streams = "all"
[auth]
signing = ["file:{folder}/secrets/signing"]
jwt = "file:{folder}/secrets/jwt"
[access.live]
publish = ["key", "jwt"]
play = {play}
keys = {lines}
[access.live.aliases]
studio = "main"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "signing").write_text(SIGNING_SECRET + "\n")
    (tmp_path / "secrets" / "jwt").write_text(JWT_SECRET + "\n")
    return tmp_path


def token(expires_at: float, subject: str = "anna", streams: str = "live/*") -> str:
    claims = {
        "sub": subject,
        "exp": int(expires_at),
        "aud": "penstock",
        "penstock": {"actions": ["publish", "play"], "streams": [streams]},
    }
    return jwt.encode(claims, JWT_SECRET, "HS256")


def link(expires_at: float, path: str = "live/main") -> str:
    exp = str(int(expires_at))
    return f"exp={exp}&sig={signature(SIGNING_SECRET.encode(), 'play', path, exp, '')}"


async def asks(client: RawClient, verb: str, name: str) -> str:
    """The first status of a publish or play."""
    await client.connect_app()
    stream_id = await client.create_stream()
    client.call(verb, 9.0, None, name, "live", stream_id=stream_id)
    kind = "NetStream."
    await client.until(lambda: any(code.startswith(kind) for code in client.codes()), f"{verb} decided")
    return next(code for code in client.codes() if code.startswith(kind))


def run(workers: Workers, scenario: Scenario) -> None:
    async def all_of_it() -> None:
        clients = PlacedClients(workers)
        async with clients:
            await scenario(clients)

    asyncio.run(all_of_it())


def test_what_a_link_or_a_token_let_in_ends_within_two_seconds_of_it_in_both_workers(folder: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        publisher = await clients.open_in(1)
        assert await asks(publisher, "publish", KEY) == "NetStream.Publish.Start"
        broadcast = Broadcast(publisher, 1, 1, gop=10)
        broadcast.send_setup()
        sending = asyncio.create_task(send_for(broadcast, 12))
        due = int(time.time()) + 5
        viewers = {}
        for worker in (1, 2):
            by_link = await clients.open_in(worker)
            assert await asks(by_link, "play", f"main?{link(due)}") == "NetStream.Play.Start"
            by_token = await clients.open_in(worker)
            assert await asks(by_token, "play", f"main?token={token(due - LEEWAY_S)}") == "NetStream.Play.Start"
            viewers[worker] = (by_link, by_token)
        stays = await clients.open_in(2)
        assert await asks(stays, "play", f"main?token={token(due + 60)}") == "NetStream.Play.Start"
        assert time.time() < due, "too slow a machine"
        for viewer in (each for pair in viewers.values() for each in pair):
            await viewer.until_code(FAILED)
            await viewer.until_closed()
            assert due - 0.1 <= time.time() <= due + WITHIN_S + SLACK_S
        assert not stays.is_closed
        assert len(stays.media()) > 50
        sending.cancel()

    with two_workers(folder, rules(folder, {"studio": KEY}), has_http=True) as workers:
        run(workers, scenario)
        started = workers.wait_for_facts("play_started", 5)
        assert sorted(str(fact["auth_subject"]) for fact in started) == ["None", "None", "anna", "anna", "anna"]
        assert {fact["auth_subject"] for fact in workers.wait_for_facts("publish_started", 1)} == {"studio"}
        stopped = workers.wait_for_facts("play_stopped", 5)
        assert [fact["reason"] for fact in stopped].count("access expired") == 4


def test_a_key_that_is_removed_and_a_rule_that_changes_end_what_they_let_in(folder: Path) -> None:
    keys = {"studio": KEY, "other": OTHER_KEY}

    async def scenario(clients: PlacedClients) -> None:
        one, two = await clients.open_in(1), await clients.open_in(2)
        assert await asks(one, "publish", KEY) == "NetStream.Publish.Start"
        assert await asks(two, "publish", f"b?key={OTHER_KEY}") == "NetStream.Publish.Start"
        viewer = await clients.open_in(1)
        assert await asks(viewer, "play", f"b?token={token(time.time() + 60)}") == "NetStream.Play.Start"
        (folder / "penstock.toml").write_text(rules(folder, {"other": OTHER_KEY}, play='["key", "jwt"]'))
        reloaded_at = time.monotonic()
        os.kill(workers.pid, signal.SIGHUP)
        await one.until_code(DENIED)
        await one.until_closed()
        assert time.monotonic() - reloaded_at < WITHIN_S + SLACK_S
        await asyncio.sleep(2.0)
        assert not two.is_closed
        assert not viewer.is_closed
        (folder / "penstock.toml").write_text(rules(folder, {"other": OTHER_KEY}, play='["key"]'))
        reloaded_at = time.monotonic()
        os.kill(workers.pid, signal.SIGHUP)
        await viewer.until_code(FAILED)
        assert time.monotonic() - reloaded_at < WITHIN_S + SLACK_S
        assert not two.is_closed

    with two_workers(folder, rules(folder, keys), has_http=True) as workers:
        run(workers, scenario)
        reasons = [fact["reason"] for fact in workers.wait_for_facts("connection_closed", 2)]
        assert reasons.count("access revoked") == 2


def test_who_asks_while_web_is_killed_is_answered_by_the_next_one(folder: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        publisher = await clients.open_in(1)
        await publisher.connect_app()
        stream_id = await publisher.create_stream()
        web = int(workers.lines("web started")[-1]["pid"])
        os.kill(web, signal.SIGSTOP)
        publisher.call("publish", 9.0, None, f"a?token={token(time.time() + 60)}", "live", stream_id=stream_id)
        await asyncio.sleep(0.3)
        assert publisher.codes()[-1] == "_result"
        os.kill(web, signal.SIGKILL)
        await publisher.until_code("NetStream.Publish.Start", 5.0)

    with two_workers(folder, rules(folder, {"studio": KEY}), has_http=True) as workers:
        run(workers, scenario)


WRONG_KEY = "kkkkwrongkeyofastranger234567abc"
NAMES_LIKE_KEYS = ("kkkknamethatmaybeakeyofpublisher", "kkkknamethatmaybeakeyofviewer234")


def test_no_secret_and_no_refused_name_is_in_anything_that_a_run_leaves_behind(folder: Path) -> None:
    live_token, wrong_token = token(time.time() + 60), token(time.time() + 60, streams="other/*")
    live_link, old_link = link(time.time() + 60), link(time.time() - 60)
    shown: list[str] = []

    async def scenario(clients: PlacedClients) -> None:
        for worker in (1, 2):
            for name in (NAMES_LIKE_KEYS[0], f"a?key={WRONG_KEY}", f"a?token={wrong_token}"):
                client = await clients.open_in(worker)
                assert await asks(client, "publish", name) == DENIED
                await client.until_closed()
            for name in (NAMES_LIKE_KEYS[1], f"main?key={WRONG_KEY}", f"main?{old_link}"):
                assert await asks(await clients.open_in(worker), "play", name) == FAILED
        publisher = await clients.open_in(1)
        assert await asks(publisher, "publish", KEY) == "NetStream.Publish.Start"
        broadcast = Broadcast(publisher, 1, 1, gop=10)
        broadcast.send_setup()
        for number, name in enumerate((f"main?token={live_token}", f"main?{live_link}", f"main?key={KEY}", KEY)):
            viewer = await clients.open_in(1 + number % 2)
            assert await asks(viewer, "play", name) == "NetStream.Play.Start"
        await send_for(broadcast, 1)
        in_app = await clients.open_in(2)
        await in_app.publish(f"b?token={wrong_token}", f"live?key={OTHER_KEY}")
        shown.append(workers.get("/metrics"))
        with connect(workers.data_dir) as control:
            control.sendall(b'{"ask": "status"}\n')
            shown.append(control.recv(65536).decode())
        processes = [Path(f"/proc/{pid}/cmdline") for pid in family_of(workers.pid)]
        shown.extend(each.read_text(encoding="utf-8", errors="replace") for each in processes)

    secrets = [KEY, OTHER_KEY, WRONG_KEY, *NAMES_LIKE_KEYS, live_token, wrong_token, JWT_SECRET, SIGNING_SECRET]
    secrets += [live_link.partition("sig=")[2], old_link.partition("sig=")[2]]
    config = rules(folder, {"studio": KEY, "other": OTHER_KEY})
    with two_workers(folder, config, ["--log-level", "debug"], has_http=True) as workers:
        run(workers, scenario)
        workers.wait_for_facts("play_stopped", 3)
        refusals = wait_for(lambda: _refusals(workers), "refusals that were counted")
        assert refusals == 12
        program: RunningProgram = workers.server.program
    left = [path for path in sorted(workers.data_dir.rglob("*")) if path.is_file()]
    assert {path.suffix for path in left} >= {".jsonl", ".flv"}
    texts = {str(path): path.read_bytes() for path in left}
    texts |= {"names of files": "\n".join(map(str, left)).encode(), "log": program.log_text().encode()}
    texts |= {f"shown {number}": text.encode() for number, text in enumerate(shown)}
    assert b"Message received" in texts["log"], "every message is in the log"
    found = [(where, secret) for where, data in texts.items() for secret in secrets if _is_in(secret, data)]
    assert found == []


def _refusals(workers: Workers) -> int | None:
    hits = [fact["hits"] for fact in workers.facts("limit_hit") if fact["limit"] == "access"]
    return sum(hits) if sum(hits) >= 12 else None


def _is_in(secret: str, data: bytes) -> bool:
    """As text, or as the bytes of a dump, half of it included: a dump may be cut."""
    half = secret[: max(12, len(secret) // 2)].encode()
    return half in data or half.hex().encode() in data or half.hex(" ").encode() in data
