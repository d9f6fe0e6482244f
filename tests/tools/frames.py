"""Frames of a tiny stream, by literal bytes, and tools for command lines."""

import argparse

from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.tools.command_line import ToolCommand

# H.264 Constrained Baseline 3.0 640x360 and AAC-LC 48 kHz stereo, as x264 and FFmpeg write them.
VIDEO_SETUP = bytes.fromhex("17000000000142c01effe100186742c01eda0280bfe584000003000400000300f23c58ba8001000468ce3c80")
AUDIO_SETUP = bytes.fromhex("af001190")
KEY = bytes.fromhex("1701000000") + bytes(95)
INTER = bytes.fromhex("2701000000") + bytes(45)
SOUND = bytes.fromhex("af01") + bytes(20)
# onMetaData with {"width": 640.0, "title": "x"}
METADATA = bytes.fromhex(
    "02 000a 6f6e4d6574614461746108 000000020005 7769647468 00 40840000000000000005 7469746c65 02 0001 780000 09"
)


def video(timestamp_ms: int, payload: bytes = INTER) -> Frame:
    return frame_of(FrameKind.VIDEO, timestamp_ms, payload)


def audio(timestamp_ms: int, payload: bytes = SOUND) -> Frame:
    return frame_of(FrameKind.AUDIO, timestamp_ms, payload)


def data(timestamp_ms: int, payload: bytes = METADATA) -> Frame:
    return frame_of(FrameKind.DATA, timestamp_ms, payload)


def parsed(command: ToolCommand, *words: str) -> argparse.Namespace:
    """The arguments of a command as its own parser reads them."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)
