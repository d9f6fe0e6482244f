"""FLV to fragmented MP4 in the plainest way: every 200 ms a fragment, whatever frame it begins with."""

from collections.abc import Iterable

from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.fmp4_fragment import Sample, TrackRun, fragment_head
from penstock.media.fmp4_init import init_segment
from penstock.media.fmp4_tracks import AUDIO_TRACK_ID, VIDEO_TRACK_ID, Mp4Track, audio_track, video_track
from penstock.media.tags import PacketKind, TrackPacket, read_audio_tag, read_video_tag
from tests.support.samples import VIDEO
from tests.support.samples import Sample as Message

FRAGMENT_MS = 200


class Remuxer:
    """Messages in, one MP4 out."""

    def __init__(self) -> None:
        self._records: dict[int, bytes] = {}
        self._firsts: dict[int, tuple[VideoCodec | AudioCodec, bytes]] = {}
        self._frames: dict[int, list[tuple[Sample, bytes]]] = {}

    def add(self, message: Message) -> None:
        if message.type_id == VIDEO:
            video = read_video_tag(message.payload)
            for track in video.tracks:
                self._add(message, VIDEO_TRACK_ID, track, is_key=video.is_key)
        else:
            for sound in read_audio_tag(message.payload).tracks:
                self._add(message, AUDIO_TRACK_ID, sound, is_key=True)

    def _add(
        self, message: Message, track_id: int, packet: TrackPacket[VideoCodec] | TrackPacket[AudioCodec], is_key: bool
    ) -> None:
        body = message.payload[packet.body_start : packet.body_end]
        if packet.packet_kind is PacketKind.SETUP:
            self._records.setdefault(track_id, body)
        elif packet.packet_kind is PacketKind.FRAME and body:
            self._firsts.setdefault(track_id, (packet.codec, body))
            sample = Sample(message.timestamp_ms, len(body), packet.composition_time_ms, is_key)
            self._frames.setdefault(track_id, []).append((sample, body))

    @property
    def tracks(self) -> list[Mp4Track]:
        tracks = []
        for track_id, (codec, first) in sorted(self._firsts.items()):
            record = self._records.get(track_id, b"")
            if isinstance(codec, VideoCodec):
                track = video_track(codec, record, first)
            else:
                track = audio_track(codec, record, first)
            assert isinstance(track, Mp4Track), track
            tracks.append(track)
        return tracks

    def write(self) -> bytes:
        pieces = [init_segment(self.tracks)]
        last_ms = max(frames[-1][0].timestamp_ms for frames in self._frames.values())
        for number, start_ms in enumerate(range(0, last_ms + 1, FRAGMENT_MS)):
            runs, payloads = [], []
            for track_id, frames in sorted(self._frames.items()):
                mine = [frame for frame in frames if start_ms <= frame[0].timestamp_ms < start_ms + FRAGMENT_MS]
                later = [sample.timestamp_ms for sample, _ in frames if sample.timestamp_ms >= start_ms + FRAGMENT_MS]
                if mine:
                    end_ms = later[0] if later else mine[-1][0].timestamp_ms + 20
                    runs.append(TrackRun(track_id, [sample for sample, _ in mine], end_ms))
                    payloads += [body for _, body in mine]
            if runs:
                pieces += [fragment_head(number, runs), *payloads]
        return b"".join(pieces)


def remuxed(messages: Iterable[Message]) -> Remuxer:
    remuxer = Remuxer()
    for message in messages:
        remuxer.add(message)
    return remuxer
