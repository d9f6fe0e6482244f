"""Every status code with its level, written out a second time by hand."""

import pytest

from penstock.protocol.status import StatusCode, information, level_of

LEVELS = {
    "NetConnection.Connect.Success": "status",
    "NetConnection.Connect.Rejected": "error",
    "NetConnection.Connect.Failed": "error",
    "NetConnection.Connect.InvalidApp": "error",
    "NetConnection.Connect.Closed": "status",
    "NetConnection.Connect.AppShutdown": "error",
    "NetConnection.Connect.ReconnectRequest": "status",
    "NetConnection.Call.Failed": "error",
    "NetConnection.Proxy.NotResponding": "error",
    "NetStream.Publish.Start": "status",
    "NetStream.Publish.BadName": "error",
    "NetStream.Publish.Denied": "error",
    "NetStream.Publish.Rejected": "error",
    "NetStream.Publish.Idle": "status",
    "NetStream.Unpublish.Success": "status",
    "NetStream.Play.Start": "status",
    "NetStream.Play.Reset": "status",
    "NetStream.Play.Stop": "status",
    "NetStream.Play.Complete": "status",
    "NetStream.Play.Failed": "error",
    "NetStream.Play.StreamNotFound": "error",
    "NetStream.Play.PublishNotify": "status",
    "NetStream.Play.UnpublishNotify": "status",
    "NetStream.Play.InsufficientBW": "warning",
    "NetStream.Data.Start": "status",
    "NetStream.Pause.Notify": "status",
    "NetStream.Unpause.Notify": "status",
    "NetStream.Seek.Notify": "status",
    "NetStream.Seek.Failed": "error",
    "NetStream.Seek.InvalidTime": "error",
    "NetStream.Failed": "error",
}


def test_each_code_has_the_level_that_players_act_on() -> None:
    assert {code.value: level_of(code) for code in StatusCode} == LEVELS


# OBS gives up with a message on these five alone; on any other refusal it waits for the socket to close.
@pytest.mark.parametrize(
    "code",
    [
        "NetStream.Publish.BadName",
        "NetStream.Publish.Rejected",
        "NetStream.Publish.Denied",
        "NetStream.Failed",
        "NetConnection.Connect.InvalidApp",
    ],
)
def test_the_refusals_that_obs_knows_are_errors(code: str) -> None:
    assert level_of(StatusCode(code)) == "error"


def test_an_information_object_has_the_usual_order() -> None:
    status = information(StatusCode.PUBLISH_START, "Publishing test.", details="test", clientid=7.0)
    assert list(status.items()) == [
        ("level", "status"),
        ("code", "NetStream.Publish.Start"),
        ("description", "Publishing test."),
        ("details", "test"),
        ("clientid", 7.0),
    ]


def test_a_code_in_an_information_object_is_plain_text() -> None:
    assert type(information(StatusCode.PLAY_STREAM_NOT_FOUND, "")["code"]) is str
