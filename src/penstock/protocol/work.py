"""How much work a peer has caused: the one count that bounds each call of a session.

A unit is a step that a peer can ask for with a few bytes and that takes about as long as any other: a chunk header, a
run of chunk bodies, a whole message that is cut out at once, a part of an aggregate, an AMF value of a command.
"""

import sys
from typing import Final

WORK_PER_CALL: Final = 64
"""Units after which `next_event` gives way, event or not. A chunk takes 1 to 2 µs, a ping with its answer 5 µs, so a
call stays below 0.4 ms. The step in hand is finished: a command of many values may take longer."""

UNLIMITED: Final = sys.maxsize
"""A count of units that is never reached."""


class WorkMeter:
    """Units of work done so far for one peer. Each reader of its bytes adds its own."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = 0
