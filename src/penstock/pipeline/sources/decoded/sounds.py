"""The level of decoded audio, for each coded frame of a recording.

Owns decibels. Full scale is a sample of 1.0; a sine of full scale has a peak of 0 dBFS and an RMS of -3.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler

from penstock.errors import MalformedMedia
from penstock.media.flv import AUDIO_TAG
from penstock.pipeline.sources.decoded.coded_track import read_track
from penstock.pipeline.sources.decoded.pictures import Unreadable
from penstock.pipeline.sources.files import OpenFile
from penstock.pipeline.sources.flv.plan import FlvPart

SILENT_DBFS: Final = -60.0
_FLOOR_DBFS: Final = -120.0


@dataclass(frozen=True, slots=True)
class Sound:
    """One decoded frame. `samples` counts all channels."""

    at_ms: int
    duration_ms: float
    square_sum: float
    peak: float
    samples: int


def sounds_of(file: OpenFile, part: FlvPart) -> Iterator[Sound | Unreadable]:
    """The sound of a part, frame by frame. Consecutive frames that cannot be decoded are reported once."""
    track = read_track(file, part, AUDIO_TAG)
    if not len(track):
        return
    try:
        decoder = track.decoder(AudioCodecContext)
    except MalformedMedia as error:
        yield Unreadable(int(track.dts_ms[0]), str(error))
        return
    resampler = AudioResampler(format="fltp")
    is_readable = True
    for index in range(len(track)):
        at_ms = int(track.dts_ms[index])
        try:
            for frame in decoder.decode(track.packet(file, index)):
                yield from (_sound(at_ms, each) for each in resampler.resample(frame))
            is_readable = True
        except (av.FFmpegError, MalformedMedia) as error:
            if is_readable:
                yield Unreadable(at_ms, f"cannot be decoded from {at_ms} ms on: {error}")
            is_readable = False


def rms(sounds: Iterable[Sound]) -> float:
    """Root of the mean square of all samples."""
    square_sum, samples = 0.0, 0
    for sound in sounds:
        square_sum += sound.square_sum
        samples += sound.samples
    return math.sqrt(square_sum / samples) if samples else 0.0


def dbfs(amplitude: float) -> float:
    """Decibels of full scale."""
    return max(20 * math.log10(amplitude), _FLOOR_DBFS) if amplitude > 0 else _FLOOR_DBFS


def _sound(at_ms: int, frame: AudioFrame) -> Sound:
    samples = frame.to_ndarray().astype(np.float64)
    duration_ms = 1000 * frame.samples / frame.sample_rate
    peak = float(np.abs(samples).max()) if samples.size else 0.0
    return Sound(at_ms, duration_ms, float(np.square(samples).sum()), peak, int(samples.size))
