"""What the player's modules make of bytes and times, in the browser that they are for.

Init segments are those of `penstock.media`, whose boxes are compared with FFmpeg's in tests/media.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.fmp4_init import init_segment
from penstock.media.fmp4_tracks import Mp4Track, audio_track, video_track
from tests.media import setup_messages
from tests.media.test_fmp4_tracks import (
    AC3_FRAME,
    AV1_RECORD,
    AVC_RECORD,
    EAC3_FRAME,
    HEVC_RECORD,
    MP3_FRAME,
    OPUS_HEAD,
    STREAMINFO,
    VP9_KEY_FRAME,
    VP9_RECORD,
)
from tests.support.ffmpeg import QUIET_ARGUMENTS, TINY_H264_ARGUMENTS, find_ffmpeg
from tests.support.processes import run_to_end
from tests.web.watch.modules import page_with_modules, run


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with page_with_modules() as found:
        yield found


def track(codec: VideoCodec | AudioCodec, record: str, frame: str = "") -> Mp4Track:
    data, first = bytes.fromhex(record), bytes.fromhex(frame)
    made = video_track(codec, data, first) if isinstance(codec, VideoCodec) else audio_track(codec, data, first)
    assert isinstance(made, Mp4Track), made
    return made


def box(kind: bytes, body: bytes = b"") -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + kind + body


INIT = box(b"ftyp", b"iso6") + box(b"moov", b"tracks")
FIRST = box(b"moof", b"one") + box(b"mdat", b"\x01" * 40)
SECOND = box(b"styp") + box(b"moof", b"two") + box(b"mdat", b"\x02" * 9)

READ_ALL = """
  const [bytes, cut] = a;
  const reader = new m.BoxReader();
  const pieces = [];
  for (let at = 0; at < bytes.length; at += cut) {
    for (const piece of reader.push(Uint8Array.from(bytes.slice(at, at + cut)))) {
      pieces.push([piece.isInit, Array.from(piece.bytes)]);
    }
  }
  return pieces;
"""


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_boxes_are_the_same_however_the_network_cuts_them(page: Page, cut: int) -> None:
    pieces = run(page, "boxes.js", READ_ALL, [list(INIT + FIRST + SECOND), cut])
    assert [(is_init, bytes(data)) for is_init, data in pieces] == [(True, INIT), (False, FIRST), (False, SECOND)]


def test_fragments_that_come_together_are_one_piece(page: Page) -> None:
    data = INIT + FIRST + SECOND + INIT + FIRST + SECOND[:20]
    pieces = run(page, "boxes.js", READ_ALL, [list(data), 1000])
    whole = [(True, INIT), (False, FIRST + SECOND), (True, INIT), (False, FIRST)]
    assert [(is_init, bytes(each)) for is_init, each in pieces] == whole


@pytest.mark.parametrize(
    ("data", "refused"),
    [
        (box(b"mdat", b"x"), "mdat without moof"),
        (FIRST + box(b"mdat", b"x"), "mdat without moof"),
        (b"\0\0\0\0mdat", "box of 0 bytes"),
        (b"\0\0\0\x07moof", "box of 7 bytes"),
        (b"\xff\xff\xff\xffmoof", "box of 4294967295 bytes"),
        (b"\0\0\0\1moof" + bytes(7) + b"\x0f", "box of 15 bytes"),
        (b"\0\0\0\1moof\0\0\1\0\0\0\0\0", "box of 1099511627776 bytes"),
        (b"<!doctype html>", "box of 1008821359 bytes"),
    ],
)
def test_what_is_no_live_mp4_is_refused(page: Page, data: bytes, refused: str) -> None:
    body = "try { new m.BoxReader().push(Uint8Array.from(a)); return null } catch (error) { return error.message }"
    assert run(page, "boxes.js", body, list(data)) == refused


@pytest.mark.parametrize(
    ("made", "codec", "name"),
    [
        (track(VideoCodec.AVC, AVC_RECORD), "avc1.4d400a", "H.264"),
        (track(VideoCodec.AVC, setup_messages.AVC_HIGH_1080P30[5:].hex()), "avc1.640028", "H.264"),
        (track(VideoCodec.HEVC, HEVC_RECORD), "hvc1.1.6.L30.90", "HEVC"),
        (track(VideoCodec.HEVC, setup_messages.HEVC_REXT_362P25[5:].hex()), "hvc1.4.10.H123.9D.8", "HEVC"),
        (track(VideoCodec.AV1, AV1_RECORD), "av01.0.00M.08", "AV1"),
        (track(VideoCodec.VP9, VP9_RECORD, VP9_KEY_FRAME), "vp09.00.10.08", "VP9"),
        (track(AudioCodec.AAC, "119056e500"), "mp4a.40.2", "AAC"),
        (track(AudioCodec.AAC, "f9464000"), "mp4a.40.42", "AAC"),
        (track(AudioCodec.MP3, "", MP3_FRAME), "mp4a.6b", "MP3"),
        (track(AudioCodec.OPUS, OPUS_HEAD), "opus", "Opus"),
        (track(AudioCodec.FLAC, STREAMINFO), "flac", "FLAC"),
        (track(AudioCodec.AC3, "", AC3_FRAME), "ac-3", "AC-3"),
        (track(AudioCodec.EAC3, "", EAC3_FRAME), "ec-3", "E-AC-3"),
    ],
)
def test_a_track_has_the_name_that_a_browser_wants(page: Page, made: Mp4Track, codec: str, name: str) -> None:
    found = run(page, "codecs.js", "return m.readInit(Uint8Array.from(a))", list(init_segment([made])))
    assert found == [{"id": made.track_id, "isVideo": made.is_video, "codec": codec, "name": name}]


def test_a_stream_of_both_has_both_names(page: Page) -> None:
    init = init_segment([track(VideoCodec.AVC, AVC_RECORD), track(AudioCodec.AAC, "119056e500")])
    found = run(page, "codecs.js", "return m.typeOf(m.readInit(Uint8Array.from(a)))", list(init))
    assert found == 'video/mp4; codecs="avc1.4d400a,mp4a.40.2"'


def test_an_init_segment_that_ends_anywhere_is_refused_in_words(page: Page) -> None:
    init = init_segment([track(VideoCodec.HEVC, HEVC_RECORD), track(AudioCodec.AAC, "119056e500")])
    body = """
      const { MalformedMedia } = await import("/watch/boxes.js");
      const wrong = [];
      for (let size = 0; size < a.length; size += 1) {
        try { m.readInit(Uint8Array.from(a.slice(0, size))); wrong.push(size); }
        catch (error) { if (!(error instanceof MalformedMedia)) wrong.push([size, String(error)]); }
      }
      return wrong;
    """
    assert run(page, "codecs.js", body, list(init)) == []


def test_an_init_segment_with_any_byte_wrong_is_read_or_refused_in_words(page: Page) -> None:
    init = init_segment([track(VideoCodec.HEVC, HEVC_RECORD), track(AudioCodec.AAC, "119056e500")])
    body = """
      const { MalformedMedia } = await import("/watch/boxes.js");
      const wrong = [];
      for (let at = 0; at < a.length; at += 1) {
        for (const byte of [0, 1, 0x7f, 0x80, 0xff]) {
          const bytes = Uint8Array.from(a);
          bytes[at] = byte;
          try { m.readInit(bytes); }
          catch (error) { if (!(error instanceof MalformedMedia)) wrong.push([at, byte, String(error)]); }
        }
      }
      return wrong;
    """
    assert run(page, "codecs.js", body, list(init)) == []


@pytest.mark.parametrize(("audio", "name"), [("libmp3lame", "MP3"), ("ac3", "AC-3")])
def test_a_sound_that_cannot_be_played_is_left_out_of_a_stream(
    page: Page, tmp_path: Path, audio: str, name: str
) -> None:
    inputs = ["-f", "lavfi", "-i", "testsrc=size=128x72:rate=10:duration=2", "-f", "lavfi", "-i", "sine=duration=2"]
    sound = ["-c:a", audio, "-ar", "44100", "-movflags", "frag_every_frame+empty_moov+delay_moov+default_base_moof"]
    file = tmp_path / "a.mp4"
    command = [find_ffmpeg(), *QUIET_ARGUMENTS, *inputs, *TINY_H264_ARGUMENTS, *sound, str(file)]
    run_to_end(command, tmp_path / "log", 30)
    body = """
      const { BoxReader } = await import("/watch/boxes.js");
      const { readInit, typeOf } = await import("/watch/codecs.js");
      const pieces = new BoxReader().push(Uint8Array.from(a));
      const [init, media] = pieces.map(({ bytes }) => bytes);
      const tracks = readInit(init);
      const others = tracks.filter((track) => !MediaSource.isTypeSupported(typeOf([track])));
      const left = new m.LeftOut(others);
      left.init(init);
      left.media(media);
      const kept = readInit(init);
      const video = document.body.appendChild(document.createElement("video"));
      const source = new MediaSource();
      const event = (target, name) => new Promise((resolve) => target.addEventListener(name, resolve, { once: true }));
      const opened = event(source, "sourceopen");
      video.src = URL.createObjectURL(source);
      await opened;
      const buffer = source.addSourceBuffer(typeOf(kept));
      for (const bytes of [init, media]) {
        const done = event(buffer, "updateend");
        buffer.appendBuffer(bytes);
        await done;
      }
      return [others.map(({ name }) => name), kept.map(({ name }) => name), buffer.buffered.end(0)];
    """
    others, kept, end_s = run(page, "left_out.js", body, list(file.read_bytes()))
    assert (others, kept) == ([name], ["H.264"])
    assert end_s == pytest.approx(2, abs=0.2)


PACED = """
  // A network that brings 100 ms every 100 ms, and a picture that obeys.
  const [behind_s, seconds, late] = a;
  const pace = new m.Pace(0.3);
  let at_s = 10 - behind_s;
  let rate = 1;
  const rates = new Set();
  const jumps = [];
  for (let tick = 0; tick < seconds * 10; tick += 1) {
    const now_s = 100 + tick / 10;
    const isLate = late !== null && tick % late.every === 0;
    const end_s = 10 + tick / 10 - (isLate ? late.by_s : 0);
    pace.arrived(end_s, now_s);
    const told = pace.look(at_s, { start: 0, end: end_s }, now_s);
    if (told.jumpsTo !== undefined) { jumps.push(told.jumpsTo - at_s); at_s = told.jumpsTo; pace.jumped(); rate = 1; }
    else { rate = told.rate; rates.add(rate); }
    at_s += rate / 10;
  }
  const now_s = 100 + seconds;
  return { latency_s: pace.latency(at_s, now_s), fastest: Math.max(...rates), slowest: Math.min(...rates), jumps };
"""


def test_a_picture_that_is_somewhat_behind_runs_a_little_faster_until_it_is_not(page: Page) -> None:
    told = run(page, "pace.js", PACED, [0.8, 20, None])
    assert told["jumps"] == []
    assert 1 < told["fastest"] <= 1.2
    assert 0.25 < told["latency_s"] < 0.4


def test_a_picture_that_is_far_behind_jumps_once(page: Page) -> None:
    told = run(page, "pace.js", PACED, [6, 20, None])
    assert len(told["jumps"]) == 1
    assert 0.15 < told["latency_s"] < 0.4


def test_a_picture_too_close_to_live_slows_down_until_it_is_safe(page: Page) -> None:
    told = run(page, "pace.js", PACED, [0.05, 20, None])
    assert told["slowest"] == pytest.approx(0.96)
    assert 0.15 < told["latency_s"] < 0.4


def test_a_network_that_brings_some_late_has_a_picture_further_behind(page: Page) -> None:
    told = run(page, "pace.js", PACED, [2, 30, {"every": 5, "by_s": 0.6}])
    # What comes 600 ms late is here 80 ms before it is needed.
    assert 0.6 < told["latency_s"] < 0.85


def test_stalls_make_the_margin_larger_and_time_makes_it_small_again(page: Page) -> None:
    body = """
      const pace = new m.Pace(0.05);
      const place = () => 10 - pace.place({ start: 0, end: 10 });
      const at = [place()];
      for (let stall = 0; stall < 10; stall += 1) pace.stalled();
      at.push(place());
      pace.arrived(10, 100);
      for (let now_s = 100; now_s < 400; now_s += 1) pace.look(now_s - 90.1, { start: 0, end: now_s - 90 }, now_s);
      at.push(place());
      return at;
    """
    before, after, later = run(page, "pace.js", body)
    assert before == pytest.approx(0.08)
    assert after == pytest.approx(2)
    assert later == pytest.approx(0.08)


def test_what_lets_a_viewer_in_goes_into_addresses_of_media_and_into_no_other(page: Page) -> None:
    body = """
      const own = "embed=1&muted=1&target_ms=300&wait_s=9&w=1";
      const kept = m.credentialsOf(`?token=a%20b&${own}&sig=x+y&exp=5&ip=&key=k&mine=y`);
      const address = new m.StreamAddress("http://localhost/live/a%20b?more=1#top", kept);
      const { app, stream } = address.names;
      return [kept, address.media(".mp4"), address.media(".jpg", { w: 640 }), address.page,
              address.open(".flv"), app, stream];
    """
    credentials = "token=a%20b&sig=x+y&exp=5&ip=&key=k&mine=y"
    assert run(page, "addresses.js", body) == [
        credentials,
        f"http://localhost/live/a%20b.mp4?{credentials}&more=1",
        f"http://localhost/live/a%20b.jpg?{credentials}&more=1&w=640",
        "http://localhost/live/a%20b",
        "http://localhost/live/a%20b.flv",
        "live",
        "a b",
    ]
