"""A live stream whose log another process writes: its viewers notice no difference."""

import pytest

from penstock.errors import MisuseError
from penstock.media.frame import Frame
from penstock.relay.readable_log import Flush, LogLimits
from penstock.serve.settings import AppSettings
from tests.relay.following_stage import FollowingStage
from tests.relay.support import inter, key, video_setup
from tests.serve.streams.stream_stage import THE_END, StreamStage, in_step


class Elsewhere(FollowingStage):
    """The process that writes the log, and a stream here that follows it."""

    def __init__(self) -> None:
        super().__init__(LogLimits(min_segment_bytes=100, max_segment_bytes=100))
        self.follow()
        self.here = StreamStage(AppSettings(), log=self.followed)
        self.break_step = self.here.stream.break_step
        self.show = self._show
        self.here.stream.begin_elsewhere(0.0)

    def _show(self, flush: Flush, now: float) -> None:
        sending = self.here.stream.begin_show(flush, now)
        (sent,) = self.here.fan_out.send([sending])
        self.here.stream.finish_flush(sending, sent)

    def write(self, *frames: Frame) -> None:
        for frame in frames:
            self.log.append(frame, 0.0)
            self.flush()

    def send(self, *frames: Frame) -> None:
        self.write(*frames)
        self.deliver_all()
        self.here.loop.settle()


@pytest.fixture
def elsewhere() -> Elsewhere:
    stage = Elsewhere()
    stage.send(video_setup(), key(0, b"k0"), inter(40, b"i1"))
    return stage


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_viewers_join_and_are_sent_what_another_process_wrote(elsewhere: Elsewhere, is_encrypted: bool) -> None:
    watcher = elsewhere.here.watch(is_encrypted=is_encrypted)
    assert watcher.heard() == ["metadata", "avc", "k0", "i1"]
    elsewhere.send(inter(80, b"i2" + bytes(3000)), key(120, b"k3"))
    assert watcher.heard() == ["i2", "k3"]
    assert watcher.viewer.is_in_step


def test_one_that_waits_for_a_key_frame_is_called_when_it_comes() -> None:
    stage = Elsewhere()
    watcher = stage.here.watch()
    stage.send(video_setup(), inter(0, b"i0"))
    assert watcher.heard() == []
    stage.send(key(40, b"k1"))
    assert watcher.heard()[-1] == "k1"


def test_a_gap_costs_those_in_step_what_the_writer_dropped_and_no_more(elsewhere: Elsewhere) -> None:
    watcher = in_step(elsewhere.here)
    elsewhere.write(inter(80, b"lost"))
    elsewhere.take(0)
    elsewhere.log.drop_everything()
    elsewhere.send(key(120, b"k3"), inter(160, b"i4"))
    elsewhere.here.loop.settle()
    assert watcher.heard() == ["metadata", "avc", "k3", "i4"]
    assert (watcher.viewer.skips, elsewhere.here.notes.skips) == (1, [21])
    elsewhere.send(inter(200, b"i5"))
    assert watcher.heard() == ["i5"]


def test_a_full_link_costs_nobody_anything(elsewhere: Elsewhere) -> None:
    watcher = in_step(elsewhere.here)
    elsewhere.write(inter(80, b"i2"))
    elsewhere.take(0)
    elsewhere.send(inter(120, b"i3"))
    assert watcher.heard() == ["i2", "i3"]
    assert watcher.viewer.skips == 0


def test_a_lost_publisher_may_come_back_elsewhere(elsewhere: Elsewhere) -> None:
    stream = elsewhere.here.stream
    stream.lose(1.0)
    assert not stream.is_live
    watcher = elsewhere.here.watch()
    assert watcher.heard() == []
    elsewhere.log.begin_anew()
    stream.begin_elsewhere(2.0)
    assert stream.is_live
    elsewhere.send(video_setup(), key(100, b"k1"))
    assert watcher.heard() == ["metadata", "avc", "k1"]


def test_the_end_comes_behind_the_last_message(elsewhere: Elsewhere) -> None:
    watcher = in_step(elsewhere.here)
    elsewhere.write(inter(80, b"i2"))
    assert elsewhere.announced is not None
    elsewhere.announced.end()
    elsewhere.log.close()
    elsewhere.deliver_all()
    assert elsewhere.followed.is_over
    elsewhere.here.stream.end()
    elsewhere.here.loop.settle()
    assert watcher.heard() == ["i2", THE_END]
    elsewhere.deliver_all()
    assert elsewhere.budget.used_bytes == 0


def test_a_followed_stream_takes_no_frames_here(elsewhere: Elsewhere) -> None:
    elsewhere.here.flush()
    with pytest.raises(MisuseError, match="live/a: another process writes its log"):
        elsewhere.here.stream.append(key(0), 0.0)
