"""A publisher that goes on: the samples of a capture, sent in real time and again and again.

Owns the clock of such a publication and what is repeated: set-up and the end of a sequence are sent in the first round
alone, so that one who joins later can have them from nobody but the server.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.rtmp_driver import DEADLINE_S, DriverError, RtmpClient, rtmp_client
from tests.support.samples import AUDIO, VIDEO, Sample

FRAME_GAP_MS = 100


def is_coded(sample: Sample) -> bool:
    """Whether it is a picture or a sound, in the legacy or the enhanced form."""
    payload = sample.payload
    if sample.type_id == VIDEO and payload[0] & 0x80:
        return _packet_type(payload, multitrack=6) in (1, 3)
    if sample.type_id == AUDIO and payload[0] >> 4 == 9:
        return _packet_type(payload, multitrack=5) == 1
    return sample.type_id in (AUDIO, VIDEO) and payload[1] == 1


def _packet_type(payload: bytes, multitrack: int) -> int:
    first = payload[0] & 0x0F
    return payload[1] & 0x0F if first == multitrack else first


def endless(samples: Sequence[Sample]) -> Iterator[Sample]:
    """All samples but ends of sequences, then the coded ones for ever, later each time."""
    coded = [sample for sample in samples if is_coded(sample)]
    first_ms, last_ms = (pick(sample.timestamp_ms for sample in coded) for pick in (min, max))
    yield from samples[: samples.index(coded[-1]) + 1]
    shift_ms = 0
    while True:
        shift_ms += last_ms - first_ms + FRAME_GAP_MS
        yield from (sample._replace(timestamp_ms=sample.timestamp_ms + shift_ms) for sample in coded)


class LivePublisher:
    """A publication in the background."""

    def __init__(self, client: RtmpClient, samples: Sequence[Sample]) -> None:
        self._client = client
        self._samples = samples
        self._is_past_first_round = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def wait_for_second_round(self) -> None:
        """Return once no set-up is sent any more."""
        if not self._is_past_first_round.wait(DEADLINE_S):
            raise DriverError(f"the first round took more than {DEADLINE_S} s")

    def _send(self) -> None:
        started_at = time.monotonic()
        for number, sample in enumerate(endless(self._samples)):
            if self._is_over.wait(max(started_at + sample.timestamp_ms / 1000 - time.monotonic(), 0)):
                return
            self._client.send([sample])
            if number == len(self._samples):
                self._is_past_first_round.set()


@contextmanager
def live_publisher(port: int, name: str, samples: Sequence[Sample]) -> Iterator[LivePublisher]:
    """Publish for the length of the block, which begins with the publication."""
    with rtmp_client(port) as client:
        client.publish(name)
        publisher = LivePublisher(client, samples)
        publisher.start()
        try:
            yield publisher
        finally:
            publisher.stop()
        client.end()
