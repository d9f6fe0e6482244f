"""Pictures of a recording: thumbnails of key frames, and all of them at a glance on one sheet.

Owns choosing, scaling and composing. Only key frames that are shown are decoded, each by itself, so the cost depends
on their number and not on the length of the recording. Reads a finished MP4; every path here is local. A key frame that
cannot be decoded is skipped.
"""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

import av
import numpy as np
from av.container import InputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

MAX_THUMBNAILS: Final = 360
"""Of longer recordings fewer are made than were asked for."""
_SHEET_COLUMNS: Final = 5
_SHEET_ROWS: Final = 5
_SHEET_SPACE_PX: Final = 4
_SHEET_GREY: Final = 32
# FFmpeg's scale for JPEG: 2 is the best, 31 the worst.
_JPEG_QUALITY: Final = 4
_FRAME_TIME: Final = Fraction(1, 25)


def write_thumbnails(mp4_path: Path, folder: Path, every_s: int, width_px: int) -> list[Path]:
    """A JPEG of the key frame at or before every so many seconds, named by its time in milliseconds."""
    folder.mkdir()
    paths: list[Path] = []
    with av.open(str(mp4_path)) as container:
        pixel_shape = container.streams.video[0].codec_context.sample_aspect_ratio
        for time_ms, frame in _key_pictures(container, every_s):
            width, height = _scaled(frame, width_px, pixel_shape or Fraction(1))
            path = folder / f"{time_ms:09d}.jpg"
            path.write_bytes(_jpeg(frame.reformat(width, height, "yuvj420p")))
            paths.append(path)
    return paths


def write_sheet(thumbnails: list[Path], path: Path) -> None:
    """One JPEG of up to 25 thumbnails, spread evenly over the recording, row by row."""
    places = min(len(thumbnails), _SHEET_COLUMNS * _SHEET_ROWS)
    chosen = [thumbnails[number * len(thumbnails) // places] for number in range(places)]
    pictures = [_read_jpeg(each) for each in chosen]
    # All have the size of the first, but for a stream that changed its size in the middle.
    height, width = (size + _SHEET_SPACE_PX for size in pictures[0].shape[:2])
    columns = min(places, _SHEET_COLUMNS)
    rows = -(-places // columns)
    sheet_shape = (_even(rows * height + _SHEET_SPACE_PX), _even(columns * width + _SHEET_SPACE_PX), 3)
    sheet = np.full(sheet_shape, _SHEET_GREY, np.uint8)
    for number, picture in enumerate(pictures):
        top = number // columns * height + _SHEET_SPACE_PX
        left = number % columns * width + _SHEET_SPACE_PX
        place = sheet[top : top + height - _SHEET_SPACE_PX, left : left + width - _SHEET_SPACE_PX]
        shown = picture[: place.shape[0], : place.shape[1]]
        place[: shown.shape[0], : shown.shape[1]] = shown
    path.write_bytes(_jpeg(av.VideoFrame.from_ndarray(sheet, format="rgb24").reformat(format="yuvj420p")))


def _key_pictures(container: InputContainer, every_s: int) -> Iterator[tuple[int, av.VideoFrame]]:
    stream = container.streams.video[0]
    time_base = stream.time_base or Fraction(1, 1000)
    start = stream.start_time or 0
    length_s = float((stream.duration or 0) * time_base)
    # A rest of less than half the distance gets no picture of its own.
    count = min(MAX_THUMBNAILS, max(1, round(length_s / every_s)))
    step = max(Fraction(every_s), Fraction(length_s) / count) / time_base
    # Tasks share the machine's cores already.
    stream.codec_context.thread_count = 1
    seen: set[int] = set()
    for number in range(count):
        container.seek(start + int(number * step), stream=stream)
        found = _next_key_picture(container, stream, seen)
        if found is not None:
            pts, frame = found
            yield round(float(pts * time_base) * 1000), frame


def _next_key_picture(
    container: InputContainer, stream: VideoStream, seen: set[int]
) -> tuple[int, av.VideoFrame] | None:
    """The key frame that a seek has led to, if it is a new one and can be decoded."""
    packet = next((packet for packet in container.demux(stream) if packet.size), None)
    if packet is None or packet.pts is None or packet.pts in seen or not packet.is_keyframe:
        return None
    seen.add(packet.pts)
    decoder = stream.codec_context
    try:
        # Nothing is to follow, so the decoder need not wait for what it might have to show first.
        frames = [*decoder.decode(packet), *decoder.decode(None)]
    except av.FFmpegError:
        frames = []
    decoder.flush_buffers()
    return (packet.pts, frames[0]) if frames else None


def _scaled(frame: av.VideoFrame, width_px: int, pixel_shape: Fraction) -> tuple[int, int]:
    """Width and height of a thumbnail, whose pixels are square. `pixel_shape` is the width of one over its height."""
    ratio = Fraction(frame.height, frame.width) / pixel_shape
    return _even(width_px), _even(max(2, round(width_px * ratio)))


def _even(size: int) -> int:
    # Colours are stored for two by two pixels.
    return size + size % 2


def _jpeg(frame: av.VideoFrame) -> bytes:
    encoder = VideoCodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = frame.width, frame.height, "yuvj420p"
    encoder.time_base = _FRAME_TIME
    encoder.qmin = encoder.qmax = _JPEG_QUALITY
    frame.pts = 0
    frame.time_base = _FRAME_TIME
    return b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])


def _read_jpeg(path: Path) -> np.ndarray:
    with av.open(str(path)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")
