"""A front with a loop of the test."""

from penstock.control.refusals import UNAVAILABLE
from penstock.serve.http.cors import Cors
from penstock.serve.http.front import HttpFront
from penstock.serve.http.handover import HandOver, WebHandover
from penstock.serve.http.proxies import TrustedProxies
from penstock.serve.reactor import Loop
from penstock.serve.sending.fan_out import FanOut
from penstock.serve.streams.access.gatekeeper import Gatekeeper
from penstock.serve.streams.observer import Observer


def new_front(
    loop: Loop,
    hand_over: HandOver,
    refusal: bytes = UNAVAILABLE,
    *,
    gatekeeper: Gatekeeper | None = None,
    origins: tuple[str, ...] = (),
    proxies: tuple[str, ...] = (),
) -> HttpFront:
    """A front whose connections are real sockets, or transports of the loop."""
    keeper = gatekeeper or Gatekeeper(loop, Observer())
    return HttpFront(
        loop,
        WebHandover(loop, hand_over, refusal),
        keeper,
        FanOut(None),
        cors=Cors(origins, keeper.admits_by_address),
        proxies=TrustedProxies(proxies),
        on_error=_fail,
    )


def _fail(error: Exception) -> None:
    raise error
