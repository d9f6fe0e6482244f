"""What the API answers, and what it has workers and supervisor do."""

from pathlib import Path
from typing import Any

import pytest

from penstock.config import Config
from penstock.control.live import Blocks, DeleteRecording, Kick, SetRecording
from penstock.web.api.app import make_app
from penstock.web.api.catalogue import RecordedFile
from tests.web.api.calling import OPENED_AT_US, Caller, connection, stream, view
from tests.web.api.test_catalogue import row, write

RECORDS_LIVE = Config.model_validate({"recording": {"streams": ["live/*"]}})


def test_a_stream_is_told_whole(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    caller.tell(streams=[stream("a")], views=[view("v1"), view("v2", protocol="flv")])
    caller.tell(2, views=[view("v3", sent_bytes=7)])
    caller.tell(gone_views=["v2"])
    assert caller.json("/streams/live/a") == {
        "app": "live",
        "stream": "a",
        "state": "live",
        "started_at": "2026-09-21T14:13:10.250Z",
        "publisher": {
            "conn_id": "c1",
            "peer_addr": "192.0.2.1:5000",
            "protocol": "rtmp",
            "client": "OBS",
            "auth_subject": "studio",
            "rule": "key",
            "pulled_from": None,
        },
        "video": {"codec": "H.264", "width": 1280, "height": 720},
        "audio": {"codec": "AAC", "sample_rate_hz": 48_000, "channels": 2},
        "bitrate_bps": 2_000_000,
        "fps": 30.0,
        "keyframe_interval_ms": None,
        "av_skew_ms": None,
        "viewers": 2,
        "viewers_by_protocol": {"rtmp": 2},
        "received_bytes": 1000,
        "sent_bytes": 207,
        "is_recording": False,
        "worker": 1,
        "verdict": "not sampled yet",
        "advice": [],
        "left_out": [],
    }


def test_a_stream_without_publisher_waits(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    caller.tell(streams=[stream("a", is_waiting=True, video=None, audio=None)])
    found = caller.json("/streams")["items"][0]
    assert (found["state"], found["publisher"], found["video"], found["audio"]) == ("waiting", None, None, None)


@pytest.mark.parametrize(("app", "name"), [("live", "a/b"), ("live/deep", "x"), ("ünïcode", "s p a c e"), ("a", "%2F")])
def test_a_stream_is_found_by_any_name(tmp_path: Path, app: str, name: str) -> None:
    from urllib.parse import quote

    caller = Caller(tmp_path)
    caller.tell(streams=[stream(name, app)])
    found = caller.json(f"/streams/{quote(app)}/{quote(name, safe='')}")
    assert (found["app"], found["stream"]) == (app, name)


def test_lists_come_page_by_page_filtered_and_sorted(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    caller.tell(views=[view(f"v{number}", "a" if number < 3 else "b", sent_bytes=9 - number) for number in range(5)])
    first = caller.json("/viewers?limit=2&sort=sent_bytes")
    second = caller.json(f"/viewers?limit=2&sort=sent_bytes&cursor={first['next_cursor']}")
    third = caller.json(f"/viewers?limit=2&sort=sent_bytes&cursor={second['next_cursor']}")
    ids = [[each["view_id"] for each in page["items"]] for page in (first, second, third)]
    assert ids == [["v4", "v3"], ["v2", "v1"], ["v0"]]
    assert third["next_cursor"] is None
    assert [each["view_id"] for each in caller.json("/viewers?app=live&stream=b&sort=-sent_bytes")["items"]] == [
        "v3",
        "v4",
    ]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 422),
        ("limit=1001", 422),
        ("limit=x", 422),
        ("sort=password", 422),
        ("sort=--view_id", 422),
        ("cursor=@", 422),
        ("cursor=AAAA", 404),
    ],
)
def test_a_list_that_cannot_be_made_is_refused(tmp_path: Path, query: str, status: int) -> None:
    answer = Caller(tmp_path).ask(f"/api/v1/viewers?{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_connections_of_a_stream_are_its_publisher_and_its_viewers(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    caller.tell(
        connections=[connection("c1"), connection("c2"), connection("c3", None)],
        streams=[stream("a")],
        views=[view("v1", conn_id="c2"), view("v2", conn_id=None)],
    )
    assert [each["conn_id"] for each in caller.json("/connections?stream=a")["items"]] == ["c1", "c2"]
    assert [each["conn_id"] for each in caller.json("/connections?app=other&stream=a")["items"]] == []
    assert caller.json("/connections?sort=-conn_id")["items"][0] == {
        "conn_id": "c3",
        "peer_addr": "192.0.2.1:5000",
        "protocol": "rtmp",
        "client": "OBS",
        "app": None,
        "opened_at": "2026-09-21T14:13:10.250Z",
        "received_bytes": 10,
        "sent_bytes": 20,
        "worker": 1,
    }


def test_kicks_go_to_the_worker_that_has_it_and_are_seen_to_happen(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    caller.tell(2, connections=[connection("c1")], views=[view("v1")])
    caller.orders.carry_out = lambda order: caller.tell(
        2,
        gone_connections=[order.conn_id] if order.conn_id else [],
        gone_views=[order.view_id] if order.view_id else [],
    )
    answers = [caller.ask(f"/api/v1/{path}", "DELETE") for path in ("viewers/v1", "connections/c1", "connections/c1")]
    assert [(each.status_code, each.content[:1]) for each in answers] == [(204, b""), (204, b""), (404, b"{")]
    assert caller.orders.sent == [(2, Kick(None, "v1")), (2, Kick("c1", None))]


def test_a_kick_that_nobody_takes_is_not_claimed(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    caller.tell(connections=[connection("c1")])
    caller.orders.is_reachable = False
    assert caller.ask("/api/v1/connections/c1", "DELETE").status_code == 503


def test_a_kick_that_does_not_show_is_not_claimed(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    caller.tell(connections=[connection("c1")])
    answer = caller.ask("/api/v1/connections/c1", "DELETE")
    assert (answer.status_code, answer.json()["detail"]) == (503, "The worker did not do it within 2 s.")


def test_recording_is_switched_within_the_patterns(tmp_path: Path) -> None:
    caller = Caller(tmp_path, config=RECORDS_LIVE)
    caller.tell(streams=[stream("a"), stream("b", "other"), stream("w", is_waiting=True)])
    caller.orders.carry_out = lambda order: caller.tell(streams=[stream("a", is_recording=order.is_recording)])

    def put(path: str, value: Any) -> tuple[int, Any]:
        answer = caller.ask(f"/api/v1/streams/{path}/recording", "PUT", json={"is_recording": value})
        return answer.status_code, answer.json().get("is_recording", answer.json().get("detail"))

    assert [put("live/a", True), put("live/a", True), put("live/a", False)] == [(200, True), (200, True), (200, False)]
    assert caller.orders.sent == [(1, SetRecording("live", "a", True)), (1, SetRecording("live", "a", False))]
    assert put("other/b", True) == (409, "recording.streams does not name this stream.")
    assert put("live/w", True) == (409, "The stream waits for its publisher.")
    assert put("live/none", True) == (404, "There is no such stream now.")
    assert put("live/a", "yes") == (422, "The request is not as described.")


def test_recordings_are_listed_fetched_in_parts_and_deleted(tmp_path: Path) -> None:
    caller = Caller(tmp_path, config=RECORDS_LIVE)
    write(tmp_path, row())
    (tmp_path / "r1_1.flv").write_bytes(b"0123456789")
    caller.catalogue.look()
    assert caller.json("/recordings?app=live&stream=a") == {
        "items": [
            {
                "id": "r1-1",
                "recording_id": "r1",
                "segment": 1,
                "app": "live",
                "stream": "a",
                "path": "r1_1.flv",
                "started_at": "2026-11-15T10:27:18.250Z",
                "duration_ms": 5000,
                "size_bytes": 1234,
                "status": "closed",
            }
        ],
        "next_cursor": None,
    }
    whole = caller.ask("/api/v1/recordings/r1-1/file")
    assert (whole.status_code, whole.content, whole.headers["content-type"]) == (200, b"0123456789", "video/x-flv")
    part = caller.ask("/api/v1/recordings/r1-1/file", headers={"range": "bytes=2-4"})
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    for wrong, status in {"bytes=20-": 416, "bytes=x": 400}.items():
        refused = caller.ask("/api/v1/recordings/r1-1/file", headers={"range": wrong})
        assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
        assert refused.json()["status"] == status
    caller.orders.carry_out = lambda _: caller.catalogue.files.clear()
    assert caller.ask("/api/v1/recordings/r1-1", "DELETE").status_code == 204
    assert caller.orders.sent == [(None, DeleteRecording("r1", 1))]
    assert caller.ask("/api/v1/recordings/r1-1/file").status_code == 404


def test_a_file_that_is_being_written_is_not_deleted_and_one_that_is_gone_is_told(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    open_file = RecordedFile("r", 1, "x.flv", "live", "a", "open", row().started_at, 0, 0)
    caller.catalogue.files = {"r-1": open_file}
    assert caller.ask("/api/v1/recordings/r-1", "DELETE").status_code == 409
    assert caller.ask("/api/v1/recordings/r-1/file").status_code == 404
    (shown,) = caller.json("/recordings")["items"]
    assert (shown["duration_ms"], shown["size_bytes"]) == (None, None)


def test_a_server_that_records_nothing_says_that_it_deletes_nothing(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    write(tmp_path, row())
    caller.catalogue.look()
    caller.config.config = RECORDS_LIVE  # a reload gives workers no thread that deletes
    answer = caller.ask("/api/v1/recordings/r1-1", "DELETE")
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "recording.streams was empty when the server started.",
    )
    assert caller.orders.sent == []


def test_blocks_are_made_listed_and_lifted(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    made = caller.ask("/api/v1/blocks", "POST", json={"address": "192.0.2.1", "for_s": 10})
    assert (made.status_code, made.json()) == (
        201,
        {"id": "address:192.0.2.1", "address": "192.0.2.1", "subject": None, "ends_at": "2026-09-21T14:13:30.000Z"},
    )
    assert caller.told == [Blocks({"192.0.2.1": caller.time + 10}, {})]
    assert caller.json("/blocks")["items"] == [made.json()]
    assert caller.ask("/api/v1/blocks/address:192.0.2.1", "DELETE").status_code == 204
    assert caller.ask("/api/v1/blocks/address:192.0.2.1", "DELETE").status_code == 404
    assert (tmp_path / "blocks.json").exists()


def test_a_subject_with_a_slash_is_let_in_again(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    blocked = caller.ask("/api/v1/blocks", "POST", json={"subject": "studio/anna", "for_s": 60})
    assert blocked.json()["id"] == "subject:studio/anna"
    assert caller.ask("/api/v1/blocks/subject:studio%2Fanna", "DELETE").status_code == 204
    assert caller.json("/blocks")["items"] == []


@pytest.mark.parametrize(
    "order",
    [
        {"for_s": 1},
        {"address": "192.0.2.1", "subject": "x", "for_s": 1},
        {"address": "here", "for_s": 1},
        {"address": True, "for_s": 1},
        {"subject": "x", "for_s": "1"},
        {"address": "192.0.2.1", "for_s": 0},
        {"subject": "x"},
        {"subject": "", "for_s": 1},
        {"subject": "x", "for_s": 1, "more": 1},
    ],
)
def test_a_block_of_nobody_is_refused_and_not_repeated(tmp_path: Path, order: dict[str, Any]) -> None:
    answer = Caller(tmp_path).ask("/api/v1/blocks", "POST", json=order)
    assert answer.status_code == 422
    assert "192.0.2.1" not in answer.text


def test_the_server_is_drained_and_told_until_when(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    answer = caller.ask("/api/v1/drain", "POST", json={"within_s": 5})
    assert (answer.status_code, answer.json()) == (202, {"ends_by": "2026-09-21T14:13:25.000Z"})
    assert caller.orders.drained == [5.0]


def test_who_has_the_newest_answer_is_told_so(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    first = caller.ask("/api/v1/streams")
    for known in (first.headers["etag"], f'"x", W/{first.headers["etag"]}', "*"):
        again = caller.ask("/api/v1/streams", headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    caller.tell(streams=[stream()])
    changed = caller.ask("/api/v1/streams", headers={"if-none-match": first.headers["etag"]})
    assert changed.status_code == 200


def test_incidents_that_last_and_that_are_over_are_listed(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    incidents = caller.happenings.incidents
    for number in range(5):
        incidents.published("live", "a", OPENED_AT_US + number)
        incidents.published("live", "b", OPENED_AT_US + 400_000_000 + number)
    incidents.passed(OPENED_AT_US + 400_000_000)
    lasting, over = caller.json("/incidents")["items"]
    assert lasting == {
        "kind": "reconnect_storm",
        "app": "live",
        "stream": "b",
        "started_at": "2026-09-21T14:19:50.250Z",
        "ended_at": None,
        "evidence": "5 publications within 5 minutes",
        "advice": "Read the encoder's log and check its network: it connects again and again.",
    }
    assert (over["stream"], over["ended_at"]) == ("a", "2026-09-21T14:13:10.250Z")
    assert [each["stream"] for each in caller.json("/incidents?stream=a&sort=ended_at")["items"]] == ["a"]
    caller.tell(streams=[stream("b")])
    assert caller.json("/streams/live/b")["advice"] == [lasting["advice"]]


CHANGES = [
    ("DELETE", "/connections/c1", "operate"),
    ("DELETE", "/viewers/v1", "operate"),
    ("PUT", "/streams/live/a/recording", "operate"),
    ("POST", "/blocks", "operate"),
    ("DELETE", "/blocks/x", "operate"),
    ("POST", "/config/check", "operate"),
    ("POST", "/analytics/refresh", "operate"),
    ("DELETE", "/recordings/r-1", "admin"),
    ("POST", "/pushes", "admin"),
    ("DELETE", "/pushes/yt", "admin"),
    ("POST", "/config/reload", "admin"),
    ("POST", "/drain", "admin"),
]


@pytest.mark.parametrize(("method", "path", "role"), CHANGES)
def test_changes_need_their_role(tmp_path: Path, method: str, path: str, role: str) -> None:
    caller = Caller(tmp_path)
    without = caller.ask(f"/api/v1{path}", method, role=None)
    assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")
    lesser = ["read", *(["operate"] if role == "admin" else [])]
    answers = [caller.ask(f"/api/v1{path}", method, role=each) for each in lesser]
    assert {answer.status_code for answer in answers} == {403}
    assert answers[-1].json()["detail"] == f"This needs the role {role}."
    assert caller.ask(f"/api/v1{path}", method, role=role).status_code != 403


def test_every_route_that_changes_something_needs_a_role(tmp_path: Path) -> None:
    paths = make_app(Caller(tmp_path).context).openapi()["paths"]
    operations = [(method, each) for methods in paths.values() for method, each in methods.items()]
    reading = [each["operationId"] for _, each in operations if each["description"].endswith("Role: read.")]
    # A link changes nothing but who may see what its maker may see; the test stream asks for a role by itself.
    gets = [each["operationId"] for method, each in operations if method in ("get", "head")]
    assert sorted(reading) == sorted([*gets, "make_link", "start_test_stream", "end_test_stream"])
    changing = [each for _, each in operations if each["operationId"] not in reading]
    assert [each["security"] for each in changing] == [[{"token": []}]] * len(CHANGES)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_the_test_stream_is_for_readers_where_anybody_may_publish_and_else_for_operators(
    tmp_path: Path, method: str
) -> None:
    rules = Config.model_validate({"access": {"live": {"publish": ["open"]}}})
    closed, path = Caller(tmp_path / "closed", config=rules), "/api/v1/test-stream"
    assert closed.ask(path, method, role=None).status_code == 401
    assert closed.ask(path, method, role="read").json()["detail"] == "This needs the role operate."
    assert closed.ask(path, method, role="operate").status_code in (404, 409)
    assert Caller(tmp_path / "open").ask(path, method, role=None).status_code in (404, 409)


def test_what_is_not_there_is_a_problem_too(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    for method, path, status in (
        ("GET", "/api/v1/nothing", 404),
        ("PATCH", "/api/v1/server", 405),
        ("GET", "/api/v2", 404),
    ):
        answer = caller.ask(path, method)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_the_page_shows_every_operation_and_has_no_script(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    page = caller.ask("/api").text
    paths = caller.ask("/api/v1/openapi.json").json()["paths"]
    assert len(paths) > 12
    assert [path for path in paths if f"<code>{path}</code>" not in page] == []
    assert ("<script" in page, "http://127.0.0.1:8080/api/v1/streams" in page) == (False, True)
    assert "script-src" not in caller.ask("/api").headers["content-security-policy"]


@pytest.mark.parametrize(("role", "name"), [("read", "reader"), ("operate", "operateer"), ("admin", "adminer")])
def test_a_caller_is_told_who_it_is(tmp_path: Path, role: str, name: str) -> None:
    assert Caller(tmp_path).json("/caller", role=role) == {"name": name, "role": role}


def test_a_reader_on_this_machine_has_no_name(tmp_path: Path) -> None:
    assert Caller(tmp_path).json("/caller", role=None) == {"name": None, "role": "read"}
