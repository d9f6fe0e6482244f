"""The secrets that viewers' addresses are hashed with: one for each month, made when first needed.

Owns `lake/_private/salts.json`, which only its owner may read. A salt that is forgotten takes with it the last way from
an address to the viewers of that month, so they are forgotten when the views of their month are.
"""

import json
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.errors import LakeError
from penstock.pipeline.lake.storage import Storage

FOLDER: Final = "_private"
_PATH: Final = f"{FOLDER}/salts.json"
_SALT_BYTES: Final = 32


def read_salts(lake: Storage) -> dict[str, str]:
    """Month to salt, for the months that have one."""
    try:
        data = lake.read(_PATH)
    except FileNotFoundError:
        return {}
    try:
        return {str(month): str(salt) for month, salt in json.loads(data).items()}
    except (ValueError, AttributeError) as error:
        # Making new salts would split every viewer of the month in two, in silence.
        raise LakeError(f"{lake.address(_PATH)} is damaged; restore it, or remove it to begin anew") from error


def salts_for(lake: Storage, months: Iterable[str]) -> dict[str, str]:
    """The salts of these months; those that were missing are made and kept."""
    salts = read_salts(lake)
    wanted = sorted(set(months))
    missing = [month for month in wanted if month not in salts]
    if missing:
        salts |= {month: secrets.token_hex(_SALT_BYTES) for month in missing}
        _write(lake, salts)
    return {month: salts[month] for month in wanted}


def forget_salts(lake: Storage, before_month: str) -> list[str]:
    """Give up the salts of earlier months. Which those were."""
    salts = read_salts(lake)
    old = sorted(month for month in salts if month < before_month)
    if old:
        _write(lake, {month: salt for month, salt in salts.items() if month not in old})
    return old


def _write(lake: Storage, salts: dict[str, str]) -> None:
    lake.make_folder(FOLDER)
    if lake.is_local:
        # First the folder, so that the file is never there for others to read, not even for a moment.
        Path(lake.path_for_arrow(FOLDER)).chmod(0o700)
    lake.put(_PATH, json.dumps(salts, sort_keys=True).encode() + b"\n")
    if lake.is_local:
        Path(lake.path_for_arrow(_PATH)).chmod(0o600)
