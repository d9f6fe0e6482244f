"""Tags, set-up records, frames and FLV files: each place that a reader names lies in its payload, and readers agree."""

import io
import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from tests.support.cuts import random_cuts

from fuzz import corpus
from fuzz.amf_targets import make_payload
from fuzz.mutate import mutate
from fuzz.outcome import Outcome, Target, expect, expect_same, join_input, refusal, split_input
from penstock.errors import MalformedMedia
from penstock.media.audio_tag import AudioTag, read_audio_tag, read_multichannel_config
from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.color_info import read_color_info
from penstock.media.describe import audio_text, describe, read_audio_setup, read_video_setup, video_text
from penstock.media.flv import FlvTag
from penstock.media.flv_reader import FlvReader, scan_tags
from penstock.media.flv_repair import RepairState, repair
from penstock.media.frame import FrameKind, frame_of
from penstock.media.packets import PacketKind
from penstock.media.setup_vpx import read_vpx_frame_size
from penstock.media.video_tag import VideoTag, read_video_tag

_MAX_UNREAD_BYTES: Final = 11 + 0xFFFFFF
_SETUP_CODECS: Final = (*VideoCodec, *AudioCodec)
_FRAME_KINDS: Final = tuple(FrameKind)

_Read = Callable[[], object]


def run_video_tag(data: bytes) -> Outcome:
    """A video message, its tracks, and what their bodies tell."""
    choices, payload = split_input(data)
    describe(payload, None)
    try:
        tag = read_video_tag(payload, nal_length_size=1 + choices % 4)
    except MalformedMedia as fault:
        refusal(fault)
        return Outcome(0, is_refused=True)
    _expect_tracks_inside(tag, payload)
    reads: list[_Read] = []
    for track in tag.tracks:
        body = payload[track.body_start : track.body_end]
        if tag.packet_kind is PacketKind.METADATA:
            reads.append(partial(read_color_info, body))
        elif tag.packet_kind is PacketKind.SETUP:
            reads.append(partial(read_video_setup, track.codec, body))
        elif track.codec in (VideoCodec.VP8, VideoCodec.VP9):
            reads.append(partial(read_vpx_frame_size, track.codec, body))
    return _outcome_of(reads)


def run_audio_tag(data: bytes) -> Outcome:
    """An audio message, its tracks, and what their bodies tell."""
    _, payload = split_input(data)
    describe(None, payload)
    try:
        tag = read_audio_tag(payload)
    except MalformedMedia as fault:
        refusal(fault)
        return Outcome(0, is_refused=True)
    _expect_tracks_inside(tag, payload)
    reads: list[_Read] = []
    for track in tag.tracks:
        body = payload[track.body_start : track.body_end]
        if tag.packet_kind is PacketKind.MULTICHANNEL_CONFIG:
            reads.append(partial(read_multichannel_config, body))
        elif tag.packet_kind is PacketKind.SETUP:
            reads.append(partial(read_audio_setup, track.codec, body))
    return _outcome_of(reads)


def run_setup(data: bytes) -> Outcome:
    """A decoder configuration record, given to the reader of one codec."""
    choices, record = split_input(data)
    codec = _SETUP_CODECS[choices % len(_SETUP_CODECS)]
    try:
        if isinstance(codec, VideoCodec):
            text = video_text(read_video_setup(codec, record))
        else:
            text = audio_text(read_audio_setup(codec, record))
    except MalformedMedia as fault:
        refusal(fault)
        return Outcome(0, is_refused=True)
    expect(text.isprintable() and len(text) < 200, f"a set-up in words: {text!r:.300}")
    return Outcome(1, is_refused=False)


def run_frame(data: bytes) -> Outcome:
    """A frame by the short way, and the same facts by the full readers."""
    choices, payload = split_input(data)
    kind = _FRAME_KINDS[choices % len(_FRAME_KINDS)]
    frame = frame_of(kind, choices, payload)
    expect_same((frame.kind, frame.timestamp_ms, frame.payload), (kind, choices, payload), "a frame keeps its message")
    expect(frame.is_setup == bool(frame.setup_slots), "set-up without a slot, or a slot without set-up")
    if kind is not FrameKind.DATA:
        tag: VideoTag | AudioTag | None = None
        try:
            tag = read_video_tag(payload) if kind is FrameKind.VIDEO else read_audio_tag(payload)
        except MalformedMedia as fault:
            refusal(fault)
        expect(frame.is_malformed == (tag is None), "the frame and the tag disagree on whether it is malformed")
        expect(frame.is_key == (isinstance(tag, VideoTag) and tag.is_key), "the frame and the tag disagree on the key")
    return Outcome(1, frame.is_malformed)


def run_flv_reader(data: bytes) -> Outcome:
    """A file read whole, read in pieces, and scanned."""
    choices, file = split_input(data)
    tags, refused, header_bytes = _read_flv([file])
    expect_same(_read_flv(random_cuts(file, choices))[:2], (tags, refused), "a file read whole and in pieces")
    if header_bytes is not None:
        scanned: list[tuple[int, int, int, int]] = []
        try:
            for head in scan_tags(file, header_bytes):
                expect(len(head.start) == min(head.payload_bytes, 8), "a scan gives the wrong start of a payload")
                scanned.append((head.kind, head.timestamp_ms, head.offset, head.payload_bytes))
        except MalformedMedia as fault:
            refusal(fault)
            expect(refused is not None, "a scan refuses what the reader takes")
        expect_same(scanned, [(tag.kind, tag.timestamp_ms, tag.offset, len(tag.payload)) for tag in tags], "a scan")
    return Outcome(len(tags), refused is not None)


def run_flv_repair(data: bytes) -> Outcome:
    """A damaged file, repaired twice and read."""
    _, before = split_input(data)
    file = io.BytesIO(before)
    report = repair(file)
    after = file.getvalue()
    if report.state is not RepairState.REPAIRED:
        expect_same(after, before, f"a file that is {report.state.value} was changed")
    if report.state is RepairState.UNUSABLE:
        return Outcome(0, is_refused=True)
    expect(report.file_bytes == len(after), f"{len(after)} bytes where the report says {report.file_bytes}")
    expect(len(after) <= len(before) + 4, f"a file of {len(before)} bytes grew to {len(after)}")
    tags, refused, _ = _read_flv([after], expect_whole=True)
    expect_same(refused, None, "a repaired file is refused")
    expect(len(tags) == report.tags, f"{len(tags)} tags where the report says {report.tags}")
    again = repair(file)
    expect_same(again.state, RepairState.WHOLE, "a second repair finds the file not whole")
    expect_same(file.getvalue(), after, "a second repair changed the file")
    return Outcome(report.tags, is_refused=report.state is RepairState.REPAIRED)


def _read_flv(pieces: Iterable[bytes], *, expect_whole: bool = False) -> tuple[list[FlvTag], str | None, int | None]:
    """The tags, the error if there was one, and where the tags begin."""
    reader = FlvReader()
    tags: list[FlvTag] = []
    refused = None
    for piece in pieces:
        reader.receive_data(piece)
        try:
            while (tag := reader.next_tag()) is not None:
                tags.append(tag)
        except MalformedMedia as fault:
            refused = refusal(fault)
            break
        expect(reader.unread_bytes <= _MAX_UNREAD_BYTES, f"{reader.unread_bytes} bytes unread")
    if expect_whole and refused is None:
        expect(reader.unread_bytes == 0, f"{reader.unread_bytes} bytes after the last tag")
    return tags, refused, None if reader.header is None else reader.header.first_tag_offset


def _expect_tracks_inside(tag: VideoTag | AudioTag, payload: bytes) -> None:
    for track in tag.tracks:
        expect(
            0 < track.body_start <= track.body_end <= len(payload),
            f"track {track.track_id} at {track.body_start} to {track.body_end} of {len(payload)} bytes",
        )


def _outcome_of(reads: list[_Read]) -> Outcome:
    """The outcome of a tag whose bodies are read so; a damaged body leaves the others readable."""
    refused = 0
    for read in reads:
        try:
            read()
        except MalformedMedia as fault:
            refusal(fault)
            refused += 1
    return Outcome(1 + len(reads) - refused, is_refused=refused > 0)


def _make_frame(chance: random.Random) -> bytes:
    pool = corpus.media_payloads(chance.choice((8, 9)))
    payload = chance.choice(pool)
    # The short way is taken by the first bytes, so most inputs are little more than those.
    payload = payload[: chance.choice((0, 1, 2, 5, 8, 40))]
    return join_input(chance.getrandbits(32), mutate(payload, chance, pool, corpus.MEDIA_TOKENS))


def _make_recording(chance: random.Random) -> bytes:
    pool = [*corpus.recordings(), *corpus.flv_files()]
    file = chance.choice(pool)
    if chance.random() < 0.5:
        return join_input(chance.getrandbits(32), file[: chance.randint(0, len(file))])
    return join_input(chance.getrandbits(32), mutate(file, chance, pool, corpus.FLV_TOKENS + corpus.AMF0_TOKENS))


MEDIA_TARGETS = (
    Target("video-tag", make_payload(lambda: corpus.media_payloads(9), corpus.MEDIA_TOKENS), run_video_tag),
    Target("audio-tag", make_payload(lambda: corpus.media_payloads(8), corpus.MEDIA_TOKENS), run_audio_tag),
    Target("setup", make_payload(corpus.setup_records, corpus.MEDIA_TOKENS), run_setup),
    Target("frame", _make_frame, run_frame),
    Target("flv-reader", make_payload(corpus.flv_files, corpus.FLV_TOKENS), run_flv_reader),
    Target("flv-repair", _make_recording, run_flv_repair),
)
