"""The real server between two of Debian's FFmpegs: what one publishes, the other plays, to the packet.

The judge is FFmpeg's own list of packets: stream, times, size and MD5 of each, from the stream and from the file that
was published. Publishers send in real time, as live encoders do.
"""

import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, pairwise
from pathlib import Path

import pytest

from tests.interop.ffmpeg_copies import (
    DEADLINE_S,
    RECORDING_PATH,
    copy_command,
    ffmpeg_command,
    listed_packets,
    run_cleanly,
    run_to_failure,
)
from tests.interop.live_player import LivePlayer, player_command, waiting_player
from tests.support.ffmpeg import publish_command
from tests.support.live_publisher import live_publisher
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import POLL_S, RunningProgram, running
from tests.support.samples import AUDIO, DATA, VIDEO, Sample, flv_samples, golden_samples

OPENS_WITHIN_S = 1.0
# What FFmpeg logs when it asks for a stream, and when it knows what is in it.
ASKED, OPENED, LISTED = "Sending play command", "Input #0", "Output #0"
# How much of a stream FFmpeg looks at before it says what is in it, where it sees one track alone.
FFMPEG_LOOKS_AT_S, LOOK_S = 5.0, 0.4
SLOW_TO_OPEN = (
    ("ffmpeg_publish_video_only", (VIDEO, DATA)),
    ("ffmpeg_publish_audio_only", (AUDIO, DATA)),
    ("ffmpeg_publish_video_only", (VIDEO,)),
    ("ffmpeg_publish_audio_only", (AUDIO,)),
    ("ffmpeg_publish", (AUDIO, VIDEO)),
)
SLOW_TO_OPEN_IDS = ("video only", "audio only", "video only, no metadata", "audio only, no metadata", "no metadata")

names = (f"stream{number}" for number in count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockServer]:
    with penstock_server(tmp_path_factory.mktemp("penstock")) as running_server:
        yield running_server


def live_copy_command(source: Path, url: str) -> list[str]:
    command = copy_command(source, url)
    position = command.index("-i")
    return [*command[:position], "-re", *command[position:]]


def publish_and_play(server: PenstockServer, source: Path, work_dir: Path) -> list[str]:
    """The packets that a player is given which was there before the publisher."""
    name, list_path = next(names), work_dir / "played.txt"
    with waiting_player(server, name, player_command(server.url(name), list_path), list_path) as player:
        run_cleanly(live_copy_command(source, server.url(name)), work_dir / "publish.log")
        return player.finish()


def first_times_ms(packets: Sequence[str]) -> dict[str, int]:
    """The pts of the first packet of each stream."""
    times_ms: dict[str, int] = {}
    for packet in packets:
        stream, _, pts, *_ = packet.split(", ")
        times_ms.setdefault(stream, int(pts))
    return times_ms


@contextmanager
def live_pattern(url: str, log_path: Path) -> Iterator[RunningProgram]:
    """Publish a picture and a sound until the block ends. At 30 pictures a second FFmpeg soon knows their rate."""
    with running(
        publish_command(url, 600, ["-r", "30", "-fps_mode", "cfr", "-stats_period", "0.2"]), log_path
    ) as publisher:
        publisher.wait_for_log("frame=", DEADLINE_S)
        yield publisher


def digests(packets: Sequence[str]) -> list[str]:
    return [packet.rpartition(", ")[2] for packet in packets]


def wait_for_packets(player: LivePlayer, number: int) -> None:
    """Return once a player has been given so many more packets."""
    wanted = len(player.packets_so_far()) + number
    give_up_at = time.monotonic() + DEADLINE_S
    while len(player.packets_so_far()) < wanted:
        if time.monotonic() >= give_up_at:
            raise player.program.failure(f"{len(player.packets_so_far())} packets of {wanted} in {DEADLINE_S} s")
        time.sleep(POLL_S)


def test_every_packet_arrives_with_its_times(server: PenstockServer, tmp_path: Path) -> None:
    played = publish_and_play(server, RECORDING_PATH, tmp_path)
    assert played == listed_packets(RECORDING_PATH, tmp_path)
    assert len(played) > 100


@pytest.mark.parametrize("late_stream", ["audio", "video"])
def test_the_distance_between_sound_and_picture_is_kept(
    server: PenstockServer, late_stream: str, tmp_path: Path
) -> None:
    source = tmp_path / "late.flv"
    picture, sound = (["-itsoffset", "0.4"] if each == late_stream else [] for each in ("video", "audio"))
    inputs = [*picture, "-i", str(RECORDING_PATH), *sound, "-i", str(RECORDING_PATH), "-map", "0:v", "-map", "1:a"]
    run_cleanly(ffmpeg_command(*inputs, "-c", "copy", source), tmp_path / "source.log")
    played, published = publish_and_play(server, source, tmp_path), listed_packets(source, tmp_path)
    times_ms = first_times_ms(published)
    assert abs(times_ms["1"] - times_ms["0"]) > 200
    assert played == published


@pytest.mark.parametrize("stream", ["v", "a"])
def test_one_track_alone_arrives_as_one_track(server: PenstockServer, stream: str, tmp_path: Path) -> None:
    source = tmp_path / "one_track.flv"
    run_cleanly(ffmpeg_command("-i", RECORDING_PATH, "-map", f"0:{stream}", "-c", "copy", source), tmp_path / "cut.log")
    played = publish_and_play(server, source, tmp_path)
    assert played == listed_packets(source, tmp_path)
    assert set(first_times_ms(played)) == {"0"}


def test_one_who_joins_late_begins_with_set_up_and_a_key_frame(server: PenstockServer, tmp_path: Path) -> None:
    name, first_path, late_path = next(names), tmp_path / "first.txt", tmp_path / "late.flv"
    with (
        waiting_player(server, name, player_command(server.url(name), first_path), first_path) as first,
        live_pattern(server.url(name), tmp_path / "publish.log"),
    ):
        wait_for_packets(first, 20)
        run_cleanly(ffmpeg_command("-i", server.url(name), "-t", "1", "-c", "copy", late_path), tmp_path / "late.log")
        decode = ffmpeg_command("-i", server.url(name), "-t", "1", "-f", "null", "-")
        run_cleanly(decode, tmp_path / "decode.log")
        wait_for_packets(first, 20)
    assert_begins_with_set_up(flv_samples(late_path))
    late_digests = digests(listed_packets(late_path, tmp_path))
    assert set(late_digests) <= set(digests(first.packets_so_far()))
    assert len(late_digests) > 20


def assert_begins_with_set_up(samples: Sequence[Sample]) -> None:
    videos = [sample.payload for sample in samples if sample.type_id == VIDEO]
    audios = [sample.payload for sample in samples if sample.type_id == AUDIO]
    assert [payload[:2] for payload in videos[:2]] == [b"\x17\x00", b"\x17\x01"]
    assert [payload[1] for payload in audios[:2]] == [0, 1]


@pytest.mark.parametrize(("capture", "kinds"), SLOW_TO_OPEN, ids=SLOW_TO_OPEN_IDS)
def test_a_stream_that_has_just_begun_opens_within_a_second_of_play(
    server: PenstockServer, capture: str, kinds: tuple[int, ...], tmp_path: Path
) -> None:
    """And with exactly the tracks it has: one that is announced and never comes would be waited for."""
    name = next(names)
    look = ["-analyzeduration", str(int(LOOK_S * 1_000_000))]
    with live_publisher(server.port, name, samples_of(capture, kinds)):
        assert opened_tracks(server.url(name), tmp_path / name, look) == tracks_of(kinds)


def test_streams_open_within_a_second_at_ffmpegs_own_settings(server: PenstockServer, tmp_path: Path) -> None:
    """FFmpeg wants to see five seconds of one track alone, and is given them at once if they were."""
    published = {next(names): (capture, kinds) for capture, kinds in SLOW_TO_OPEN}
    with ExitStack() as publishers:
        for name, (capture, kinds) in published.items():
            publishers.enter_context(live_publisher(server.port, name, samples_of(capture, kinds)))
        time.sleep(FFMPEG_LOOKS_AT_S + 1.0)
        for name, (_, kinds) in published.items():
            assert opened_tracks(server.url(name), tmp_path / name) == tracks_of(kinds)


def opened_tracks(url: str, work_dir: Path, options: Sequence[str] = ()) -> list[str]:
    """The tracks that FFmpeg finds in a stream, within a second of asking for it."""
    work_dir.mkdir()
    play = player_command(url, work_dir / "played.txt", options)
    with running(play, work_dir / "play.log") as player:
        player.wait_for_log(ASKED, DEADLINE_S)
        asked_at = time.monotonic()
        player.wait_for_log(OPENED, DEADLINE_S)
        assert time.monotonic() - asked_at < OPENS_WITHIN_S
        player.wait_for_log(LISTED, DEADLINE_S)
        printed = player.log_text().partition(LISTED)[0]
    return sorted(re.findall(r"Stream #0:\d.*?: (Audio|Video|Subtitle|Data): ", printed))


def samples_of(capture: str, kinds: tuple[int, ...]) -> list[Sample]:
    return [sample for sample in golden_samples(capture) if sample.type_id in kinds]


def tracks_of(kinds: tuple[int, ...]) -> list[str]:
    return sorted({AUDIO: "Audio", VIDEO: "Video"}[kind] for kind in kinds if kind != DATA)


def test_a_second_publisher_is_told_that_the_name_is_taken(server: PenstockServer, tmp_path: Path) -> None:
    name = next(names)
    with live_pattern(server.url(name), tmp_path / "first.log") as first:
        printed = run_to_failure(copy_command(RECORDING_PATH, server.url(name)), tmp_path / "second.log")
        assert f"Server error: live/{name} is being published already." in printed
        assert first.process.poll() is None


def test_a_player_stays_while_its_publisher_is_lost_and_comes_back(server: PenstockServer, tmp_path: Path) -> None:
    name, list_path = next(names), tmp_path / "played.txt"
    with waiting_player(server, name, player_command(server.url(name), list_path), list_path) as player:
        with live_pattern(server.url(name), tmp_path / "first.log") as first:
            wait_for_packets(player, 20)
            first.process.send_signal(signal.SIGKILL)
            first.wait_for_exit(DEADLINE_S)
        before = len(player.packets_so_far())
        assert player.program.process.poll() is None
        run_cleanly(publish_command(server.url(name), seconds=1), tmp_path / "second.log")
        packets = player.finish()
    assert len(packets) > before + 20
    for stream in ("0", "1"):
        times_ms = [int(packet.split(", ")[1]) for packet in packets if packet.startswith(f"{stream}, ")]
        assert all(earlier < later for earlier, later in pairwise(times_ms))


def test_a_player_of_nothing_is_turned_away_after_the_wait(tmp_path: Path) -> None:
    with penstock_server(tmp_path, config="[defaults]\nplay_wait_s = 1\n") as server:
        printed = run_to_failure(player_command(server.url("none"), tmp_path / "played.txt"), tmp_path / "play.log")
        assert "Server error: live/none is not being published." in printed


def test_players_end_well_when_the_server_shuts_down(tmp_path: Path) -> None:
    list_path = tmp_path / "played.txt"
    with (
        penstock_server(tmp_path) as server,
        waiting_player(server, "s", player_command(server.url("s"), list_path), list_path) as player,
        live_pattern(server.url("s"), tmp_path / "publish.log"),
    ):
        wait_for_packets(player, 20)
        server.program.stop()
        player.finish()
