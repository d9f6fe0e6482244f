"""What is logged of pulls: little, however many names strangers ask for."""

import io
import json

from penstock.logs import configure_logs
from tests.serve.pulls.stage import PullStage


def test_misses_are_logged_once_a_second_with_how_many_were_held_back() -> None:
    stream = io.StringIO()
    writer = configure_logs("info", "json", stream)
    stage = PullStage()
    for names, pause_s in (("abc", 1.5), ("d", 0.0)):
        for name in names:
            stage.viewer(1, name)
            stage.source.refuse()
        stage.loop.advance(pause_s)
    assert writer.flush(5.0)
    configure_logs("error", "json", io.StringIO())
    told = [line for line in map(json.loads, stream.getvalue().splitlines()) if line["msg"] == "Pull missed"]
    assert [(line["stream_key"], line["swallowed"]) for line in told] == [("live/a", 0), ("live/d", 2)]
