"""From when on bronze is whole.

Owns `lake/_notes/horizon.json`. Before the horizon bronze was given up, and with it the ground on which tables could be
made anew: a fact that comes later than that would stand for everything that happened in its hour, so it is not let in.
"""

import json
from typing import Final

from penstock.pipeline.lake.hours import us_of_hour
from penstock.pipeline.lake.storage import Storage

_PATH: Final = "_notes/horizon.json"


def read_horizon_us(lake: Storage) -> int:
    """When the first hour begins that bronze still has whole; 0 if nothing was ever given up."""
    try:
        return us_of_hour(json.loads(lake.read(_PATH))["first_hour"])
    except FileNotFoundError:
        return 0


def raise_horizon(lake: Storage, first_hour: str) -> None:
    """Note that everything before this hour is about to be given up. It never goes back."""
    if us_of_hour(first_hour) > read_horizon_us(lake):
        lake.put(_PATH, json.dumps({"first_hour": first_hour}).encode() + b"\n")
