"""Golden files: bytes that other programs made, kept beside the tests."""

from pathlib import Path

GOLDEN_DIR = Path(__file__).resolve().parent.parent / "golden"


def golden_bytes(name: str) -> bytes:
    """The bytes of one golden file, named from `tests/golden`: "sessions/ffmpeg_publish.client.bin"."""
    path = GOLDEN_DIR / name
    if not path.is_file():
        neighbours = sorted(entry.name for entry in path.parent.glob("*.bin"))
        raise FileNotFoundError(f"no golden file {name}; {path.parent} has {', '.join(neighbours) or 'none'}")
    return path.read_bytes()
