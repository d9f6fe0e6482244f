"""GStreamer as publisher and player of our server session.

`rtmp2sink` and `rtmp2src` are GStreamer's own RTMP, `rtmpsink` is librtmp. A recording is unpacked and packed anew;
one branch goes to us and one to a file, and both must hold the same.
"""

from pathlib import Path

import pytest

from penstock.protocol.events import HandshakeCompleted, PublishEnded
from tests.interop.ffmpeg_copies import DEADLINE_S, RECORDING_PATH
from tests.support.processes import ProgramMissing, find_program, run_to_end
from tests.support.rtmp_driver import rtmp_client
from tests.support.rtmp_server import RtmpServer, rtmp_server
from tests.support.samples import AUDIO, VIDEO, Sample, fingerprints, flv_samples, media_of

ELEMENT_PACKAGES = {
    "flvmux": "gstreamer1.0-plugins-good",
    "aacparse": "gstreamer1.0-plugins-good",
    "h264parse": "gstreamer1.0-plugins-bad",
    "rtmp2sink": "gstreamer1.0-plugins-bad",
    "rtmp2src": "gstreamer1.0-plugins-bad",
    "rtmpsink": "gstreamer1.0-plugins-bad",
}
# rtmp2src passes over video messages of 5 bytes or fewer.
LARGEST_IGNORED_BYTES = 5


@pytest.fixture(scope="module", autouse=True)
def _elements(tmp_path_factory: pytest.TempPathFactory) -> None:
    inspect = find_program("gst-inspect-1.0", "gstreamer1.0-tools")
    log_path = tmp_path_factory.mktemp("gstreamer") / "elements.log"
    known = run_to_end([inspect], log_path, DEADLINE_S)
    for element, package in ELEMENT_PACKAGES.items():
        if f" {element}:" not in known:
            raise ProgramMissing(f"GStreamer's {element}", package)


def run_pipeline(description: str, log_path: Path) -> str:
    return run_to_end(
        [find_program("gst-launch-1.0", "gstreamer1.0-tools"), *description.split()], log_path, DEADLINE_S
    )


def without_small_video(samples: list[Sample]) -> list[Sample]:
    return [each for each in samples if each.type_id != VIDEO or len(each.payload) > LARGEST_IGNORED_BYTES]


def publish_recording(server: RtmpServer) -> None:
    with rtmp_client(server.port) as publisher:
        publisher.publish("s")
        publisher.send(flv_samples(RECORDING_PATH))
        publisher.end()
        server.wait_for(PublishEnded)


@pytest.mark.parametrize("sink", ["rtmp2sink", "rtmpsink"])
@pytest.mark.parametrize("chunk_size", [128, 4096, 65536])
def test_what_gstreamer_publishes_arrives(sink: str, chunk_size: int, tmp_path: Path) -> None:
    local_path = tmp_path / "local.flv"
    with rtmp_server(chunk_size=chunk_size) as server:
        run_pipeline(
            f"filesrc location={RECORDING_PATH} ! flvdemux name=demux flvmux name=mux streamable=true ! tee name=both"
            " demux.video ! queue ! h264parse ! mux. demux.audio ! queue ! aacparse ! mux."
            f" both. ! queue ! {sink} sync=false location={server.url('s')}"
            f" both. ! queue ! filesink location={local_path}",
            tmp_path / "publish.log",
        )
        server.wait_for(PublishEnded)
        for type_id in (AUDIO, VIDEO):
            assert fingerprints(server.samples("s"), type_id) == fingerprints(flv_samples(local_path), type_id)
        assert len(media_of(server.samples("s"))) > 100


@pytest.mark.parametrize("chunk_size", [128, 4096, 65536])
def test_gstreamer_plays_what_was_published(chunk_size: int, tmp_path: Path) -> None:
    """But for the last message at most: rtmp2src may forget the one in hand when it hears of the end."""
    played_path = tmp_path / "played.flv"
    with rtmp_server(chunk_size=chunk_size) as server:
        publish_recording(server)
        run_pipeline(f"rtmp2src location={server.url('s')} ! filesink location={played_path}", tmp_path / "play.log")
        assert [event.used_digest for event in server.events(HandshakeCompleted)][-1] is False
    published = without_small_video(media_of(flv_samples(RECORDING_PATH)))
    played = media_of(flv_samples(played_path))
    assert played == published[: len(played)]
    assert len(published) - len(played) <= 1
