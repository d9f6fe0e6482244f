"""A recording that many tests look at, made once."""

from pathlib import Path

import pytest

from tests.pipeline.jobs.recorded import make_recording


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """14 seconds of H.264 and AAC, as FFmpeg writes FLV."""
    return make_recording(tmp_path_factory.mktemp("recorded") / "recording.flv")
