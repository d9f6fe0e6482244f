"""The real server with programs that are no FFmpeg: rtmpdump plays, GStreamer publishes and plays.

rtmpdump is librtmp and knows no codec, so it also plays what is enhanced. GStreamer's rtmp2src drops messages whose
stream id is not its own. Both pass over video messages of 5 bytes or fewer: the end of a sequence in the old form.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.interop.ffmpeg_copies import RECORDING_PATH, ffmpeg_command, listed_packets, run_cleanly
from tests.interop.live_player import player_command, waiting_player
from tests.support.gstreamer import pipeline_command, require_elements
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import find_program, run_to_end, running
from tests.support.rtmp_driver import rtmp_client
from tests.support.samples import AUDIO, VIDEO, Sample, fingerprints, flv_samples, golden_samples, media_of

DEADLINE_S = 30.0
LARGEST_IGNORED_BYTES = 5

names = (f"stream{number}" for number in count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockServer]:
    work_dir = tmp_path_factory.mktemp("penstock")
    require_elements(work_dir / "elements.log")
    with penstock_server(work_dir) as running_server:
        yield running_server


def publish_to_waiting(
    server: PenstockServer, player: Callable[[str], list[str]], samples: Sequence[Sample], log_path: Path
) -> str:
    """Publish all at once to a player that was there before, wait until it ends by itself, and return its log."""
    name = next(names)
    with running(player(server.url(name)), log_path) as program:
        server.wait_for_play(name)
        with rtmp_client(server.port) as publisher:
            publisher.publish(name)
            publisher.send(samples)
            publisher.end()
            assert program.wait_for_exit(DEADLINE_S) == 0
        return program.log_text()


def without_small_video(samples: Sequence[Sample]) -> list[Sample]:
    return [each for each in samples if each.type_id != VIDEO or len(each.payload) > LARGEST_IGNORED_BYTES]


@pytest.mark.parametrize(
    "capture", ["ffmpeg_publish", "obs_publish", "ffmpeg7_publish_hevc", "pyav_publish_multitrack"]
)
def test_rtmpdump_writes_the_payloads_that_were_published(server: PenstockServer, capture: str, tmp_path: Path) -> None:
    played_path, samples = tmp_path / "played.flv", golden_samples(capture)

    def rtmpdump(url: str) -> list[str]:
        return [find_program("rtmpdump", "rtmpdump"), "--live", "-r", url, "-o", str(played_path)]

    printed = publish_to_waiting(server, rtmpdump, samples, tmp_path / "play.log")
    assert "Download complete" in printed
    expected = without_small_video(media_of(samples))
    for type_id in (AUDIO, VIDEO):
        assert fingerprints(flv_samples(played_path), type_id) == fingerprints(expected, type_id)


def test_gstreamer_writes_the_payloads_that_were_published(server: PenstockServer, tmp_path: Path) -> None:
    """But for the last message at most: rtmp2src may forget the one in hand when it hears of the end."""
    played_path, samples = tmp_path / "played.flv", flv_samples(RECORDING_PATH)

    def gstreamer(url: str) -> list[str]:
        return pipeline_command(f"rtmp2src location={url} ! filesink location={played_path}")

    publish_to_waiting(server, gstreamer, samples, tmp_path / "play.log")
    played, expected = media_of(flv_samples(played_path)), without_small_video(media_of(samples))
    for type_id in (AUDIO, VIDEO):
        given = fingerprints(played, type_id)
        assert given == fingerprints(expected, type_id)[: len(given)]
    assert len(expected) - len(played) <= 1


def test_ffmpeg_plays_the_packets_that_gstreamer_publishes(server: PenstockServer, tmp_path: Path) -> None:
    name, list_path, local_path = next(names), tmp_path / "played.txt", tmp_path / "local.flv"
    publish = pipeline_command(
        f"filesrc location={RECORDING_PATH} ! flvdemux name=demux flvmux name=mux streamable=true ! tee name=both"
        " demux.video ! queue ! h264parse ! mux. demux.audio ! queue ! aacparse ! mux."
        f" both. ! queue ! rtmp2sink sync=false location={server.url(name)}"
        f" both. ! queue ! filesink location={local_path}"
    )
    with waiting_player(server, name, player_command(server.url(name), list_path), list_path) as player:
        run_to_end(publish, tmp_path / "publish.log", DEADLINE_S)
        played = player.finish()
    assert played == listed_packets(local_path, tmp_path)
    assert len(played) > 100


def test_gstreamer_plays_what_ffmpeg_publishes(server: PenstockServer, tmp_path: Path) -> None:
    name, played_path, copy_path = next(names), tmp_path / "played.flv", tmp_path / "copy.flv"
    run_cleanly(ffmpeg_command("-i", RECORDING_PATH, "-c", "copy", copy_path), tmp_path / "copy.log")
    play = pipeline_command(f"rtmp2src location={server.url(name)} ! filesink location={played_path}")
    publish = ffmpeg_command("-re", "-i", RECORDING_PATH, "-c", "copy", "-f", "flv", server.url(name))
    with running(play, tmp_path / "play.log") as player:
        server.wait_for_play(name)
        run_cleanly(publish, tmp_path / "publish.log")
        assert player.wait_for_exit(DEADLINE_S) == 0
    played, published = flv_samples(played_path), without_small_video(media_of(flv_samples(copy_path)))
    for type_id in (AUDIO, VIDEO):
        given = fingerprints(played, type_id)
        assert given == fingerprints(published, type_id)[: len(given)]
    assert len(published) - len(media_of(played)) <= 1
