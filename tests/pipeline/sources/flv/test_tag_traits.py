"""What many tags hold at once, against what the readers of media say of each payload."""

import random

import numpy as np
import pytest

from penstock.media.codecs import AUDIO_CODEC_BY_FOURCC, VIDEO_CODEC_BY_FOURCC, AudioCodec, VideoCodec
from penstock.media.flv import AMF3_SCRIPT_TAG, AUDIO_TAG, SCRIPT_TAG, VIDEO_TAG
from penstock.pipeline.sources.flv.tag_traits import CODECS, NO_TRACK, ROLES, Described, describe_payload, traits_of

ON_METADATA = b"\x02\x00\x0aonMetaData\x08\x00\x00\x00\x00\x00\x00\x09"


def described_at_once(tags: list[tuple[int, bytes]]) -> list[Described]:
    kinds = np.array([kind for kind, _ in tags], np.uint8)
    starts = np.array([list(payload[:8].ljust(8, b"\xee")) for _, payload in tags], np.uint8)
    sizes = np.array([len(payload) for _, payload in tags], np.int64)
    traits = traits_of(kinds, starts, sizes, lambda row: tags[row][1])
    labels: dict[str | None, VideoCodec | AudioCodec | None] = {
        codec.label: codec for codec in (*VideoCodec, *AudioCodec)
    }
    return [
        Described(
            None if traits.tracks[row] == NO_TRACK else int(traits.tracks[row]),
            labels.get(CODECS[traits.codecs[row]]),
            ROLES[traits.roles[row]],
            bool(traits.is_key[row]),
            int(traits.composition_times_ms[row]),
            traits.errors.get(row),
        )
        for row in range(len(tags))
    ]


def every_header() -> list[tuple[int, bytes]]:
    rest = random.Random(3).randbytes(40)
    fourccs = [*VIDEO_CODEC_BY_FOURCC, *AUDIO_CODEC_BY_FOURCC, b"none"]
    plain = [bytes((first, second)) for first in range(256) for second in (0, 1, 2, 3, 0x11, 0x81)]
    enhanced = [bytes((first,)) + fourcc for first in range(256) for fourcc in fourccs]
    return [(kind, head + rest) for kind in (VIDEO_TAG, AUDIO_TAG) for head in plain + enhanced]


def test_every_header_is_told_as_the_readers_of_media_tell_it() -> None:
    tags = every_header()

    assert described_at_once(tags) == [describe_payload(kind, payload) for kind, payload in tags]


@pytest.mark.parametrize("size", range(9))
def test_short_payloads_are_told_by_what_is_there(size: int) -> None:
    tags = [(kind, payload[:size]) for kind, payload in every_header()[::17]]

    assert described_at_once(tags) == [describe_payload(kind, payload) for kind, payload in tags]


def test_composition_times_may_be_negative_and_come_in_both_forms() -> None:
    legacy = bytes.fromhex("27 01 ffffd8") + bytes(20)
    enhanced = b"\xa1hvc1" + bytes.fromhex("000050") + bytes(20)
    without = b"\xa3hvc1" + bytes.fromhex("000050") + bytes(20)

    told = described_at_once([(VIDEO_TAG, legacy), (VIDEO_TAG, enhanced), (VIDEO_TAG, without)])

    assert [each.composition_time_ms for each in told] == [-40, 80, 0]


def test_metadata_is_set_up_and_other_script_data_is_not() -> None:
    tags = [(SCRIPT_TAG, ON_METADATA), (AMF3_SCRIPT_TAG, b"\x00" + ON_METADATA), (SCRIPT_TAG, b"\x02\x00\x01a\x05")]

    assert [each.role for each in described_at_once(tags)] == ["config", "config", "other"]
