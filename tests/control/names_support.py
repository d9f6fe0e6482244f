"""A registry of names with an owner, and messages to it."""

from penstock.control.messages import Begun, Claim, Continuation
from penstock.control.names import AboutNames, Names, Outgoing

CAM = b"live/cam"
WHERE = Continuation(position=900, last_timestamp_ms=4000, last_frame_at=99.5)


def claim(request: int = 1, *, may_replace: bool = False, grace_s: float = 10.0, claimant: str = "c1") -> Claim:
    return Claim(request, CAM, claimant, may_replace, grace_s)


def owned_by(worker: int) -> Names:
    """A registry in which a worker publishes the stream, as epoch 1."""
    names = Names()
    names.receive(worker, claim(), 0.0)
    names.receive(worker, Begun(CAM, 1), 0.0)
    return names


def tell(names: Names, *said: tuple[int, AboutNames], now: float = 0.0) -> list[Outgoing]:
    """What the last of these messages leads to."""
    found: list[Outgoing] = []
    for worker, message in said:
        found = names.receive(worker, message, now)
    return found
