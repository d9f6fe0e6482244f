"""From the configuration to settings: what the operator wrote is what the parts get."""

import pytest

from penstock.config import Config
from penstock.serve.configured import file_modes_of, recording_settings_of
from penstock.serve.settings import FileModes


@pytest.mark.parametrize(
    ("data_mode", "modes"),
    [("private", (0o700, 0o600)), ("group", (0o750, 0o640)), ("world", (0o755, 0o644))],
)
def test_the_data_mode_names_the_modes_of_folders_and_files(data_mode: str, modes: tuple[int, int]) -> None:
    config = Config.model_validate({"server": {"data_mode": data_mode}})
    assert file_modes_of(config) == FileModes(*modes)
    assert recording_settings_of(config).modes == FileModes(*modes)


def test_data_is_private_unless_configured() -> None:
    assert file_modes_of(Config()) == FileModes() == FileModes(folder=0o700, file=0o600)
