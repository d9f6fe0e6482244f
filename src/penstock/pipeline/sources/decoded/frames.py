"""`spark.read.format("frames").load("recordings/")`: decoded pictures of recordings, ready for machine learning.

One row for each picture: `at_ms` is the time that was asked for, `dts_ms` and `pts_ms` are those of the frame on the
screen at that time. Where nothing can be decoded there is a row with an error and no image. Options, beside those that
choose segments (see `flv.segment_filter`):

- `every` (keyframes): `keyframes`, or a time such as `2s`: the pictures at its multiples.
- `width`: scale pictures to it, keeping their shape; as they are if it is not given.
- `image` (jpeg): `jpeg`, or `rgb`: three bytes for each pixel, row after row.
- `splitBytes` (64 MiB): as for `flv`; decoding takes longer than reading.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from av.codec.context import CodecContext
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from penstock.errors import ConfigError
from penstock.pipeline.sources.decoded.decoded_source import DecodedReader, Row
from penstock.pipeline.sources.decoded.pictures import Picture, Unreadable, pictures_of
from penstock.pipeline.sources.files import OpenFile, paths_of
from penstock.pipeline.sources.flv.plan import FlvPart
from penstock.pipeline.sources.flv.segment_filter import segment_filter_of
from penstock.pipeline.sources.options import count_of, duration_ms_of

FRAMES_SCHEMA: Final = (
    "path string, app string, stream string, at_ms bigint, dts_ms bigint, pts_ms bigint, width int, height int, "
    "image binary, error string"
)
KEYFRAMES: Final = "keyframes"
_SPLIT_BYTES: Final = 64 * 1024 * 1024
_IMAGES: Final = ("jpeg", "rgb")
# MJPEG's scale of quality goes from 2, the best, to 31; 4 is about what others call 90 %.
_JPEG_QUANTIZER: Final = 4


class FramesSource(DataSource):
    """The format `frames`."""

    @classmethod
    def name(cls) -> str:
        return "frames"

    def schema(self) -> str:
        return FRAMES_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        every = self.options.get("every", KEYFRAMES)
        image = self.options.get("image", _IMAGES[0])
        if image not in _IMAGES:
            raise ConfigError(f"option image is {image!r}, neither of {' and '.join(_IMAGES)}")
        return FramesReader(
            paths_of(self.options),
            segment_filter_of(self.options),
            count_of(self.options, "splitBytes", default=_SPLIT_BYTES),
            len(schema),
            None if every == KEYFRAMES else duration_ms_of(self.options, "every", default=KEYFRAMES),
            count_of(self.options, "width", default=0) or None,
            image,
        )


@dataclass
class FramesReader(DecodedReader):
    """Decodes, scales and encodes on the executors."""

    every_ms: int | None
    width: int | None
    image: str

    def rows_of(self, file: OpenFile, part: FlvPart) -> Iterator[Row]:
        for found in pictures_of(file, part, self.every_ms):
            match found:
                case Picture():
                    frame = scaled(found.frame, self.width)
                    data = _jpeg(frame) if self.image == "jpeg" else _rgb(frame)
                    yield found.at_ms, found.dts_ms, found.pts_ms, frame.width, frame.height, data, None
                case Unreadable():
                    yield found.at_ms, None, None, None, None, None, found.reason


def scaled(frame: VideoFrame, width: int | None, pixel_format: str | None = None) -> VideoFrame:
    """A picture of another width and the same shape; its height is even, as most pixel formats want it."""
    if width is None:
        return frame if pixel_format is None else frame.reformat(format=pixel_format)
    height = max(round(frame.height * width / frame.width / 2) * 2, 2)
    return frame.reformat(width=width, height=height, format=pixel_format)


def _rgb(frame: VideoFrame) -> bytes:
    return bytes(frame.to_ndarray(format="rgb24").tobytes())


def _jpeg(frame: VideoFrame) -> bytes:
    encoder = CodecContext.create("mjpeg", "w")
    assert isinstance(encoder, VideoCodecContext)  # noqa: S101
    picture = frame.reformat(format="yuvj420p")
    picture.pts = None
    encoder.width, encoder.height, encoder.pix_fmt = picture.width, picture.height, "yuvj420p"
    encoder.time_base = 1  # type: ignore[assignment]
    encoder.thread_count = 1
    encoder.qmin = encoder.qmax = _JPEG_QUANTIZER
    return b"".join(bytes(packet) for packet in [*encoder.encode(picture), *encoder.encode(None)])
