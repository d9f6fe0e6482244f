"""What the servers are asked to do: each scenario's load and the rows that take part in it.

Owns the numbers of the loads. A 4 Mbit/s stream has 30 frames/s, a keyframe every 2 s that is six times a delta frame,
and 43 audio messages/s of 128 kbit/s in all.
"""

from dataclasses import dataclass, field

FPS = 30
AUDIO_PER_S = 43
MESSAGES_PER_S = FPS + AUDIO_PER_S

FAN_OUT_ROWS = ("nginx", "penstock", "penstock frame", "floor message", "floor frame")
SERVER_ROWS = ("nginx", "penstock")
# One and two workers are neighbours, as one is measured against the other. Both send as often by `frame`, and nearly so
# by `auto`.
WORKERS_FAN_OUT_ROWS = (
    "nginx",
    "penstock",
    "penstock 2 workers",
    "penstock frame",
    "penstock frame 2 workers",
    "floor message",
    "floor frame",
)
WORKERS_ROWS = ("nginx", "penstock", "penstock 2 workers")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One load. `viewers` 0 means publishers alone; with no streams the connections are idle.

    `options` go to the viewers' generator and `media` to the publishers', and to the floor.
    """

    name: str
    meaning: str
    rows: tuple[str, ...]
    streams: int = 1
    viewers: int = 0
    idle: int = 0
    video_bps: int = 4_000_000
    options: dict[str, object] = field(default_factory=dict)
    media: dict[str, object] = field(default_factory=dict)


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("fanout-1", "one 4 Mbit/s stream to one viewer", FAN_OUT_ROWS, viewers=1),
        Scenario("fanout-200", "one 4 Mbit/s stream to 200 viewers", FAN_OUT_ROWS, viewers=200),
        Scenario("fanout-500", "one 4 Mbit/s stream to 500 viewers", WORKERS_FAN_OUT_ROWS, viewers=500),
        Scenario("fanout-1000", "one 4 Mbit/s stream to 1000 viewers", WORKERS_FAN_OUT_ROWS, viewers=1000),
        Scenario(
            "flush-500",
            "one 4 Mbit/s stream to 500 viewers by each flush policy",
            (
                "nginx",
                "penstock",
                "penstock frame",
                "penstock frame, no ring",
                "floor frame",
                "penstock 50 ms",
                "floor 50 ms",
                "penstock 100 ms",
                "floor 100 ms",
            ),
            viewers=500,
        ),
        Scenario("ingest-200", "200 publishers of 1 Mbit/s", SERVER_ROWS, streams=200, video_bps=1_000_000),
        Scenario(
            "ingest-view-200",
            "200 publishers of 1 Mbit/s, one viewer each",
            WORKERS_ROWS,
            streams=200,
            viewers=200,
            video_bps=1_000_000,
        ),
        Scenario(
            "streams-50",
            "50 publishers of 1 Mbit/s, ten viewers each",
            WORKERS_ROWS,
            streams=50,
            viewers=500,
            video_bps=1_000_000,
        ),
        # With odd numbers of publishers, since connections go to two workers in turn.
        Scenario(
            "apart-201",
            "201 publishers of 1 Mbit/s, one viewer each, in the other of two workers",
            WORKERS_ROWS,
            streams=201,
            viewers=201,
            video_bps=1_000_000,
        ),
        Scenario(
            "apart-51",
            "51 publishers of 1 Mbit/s, ten viewers each, half of them in the other of two workers",
            WORKERS_ROWS,
            streams=51,
            viewers=510,
            video_bps=1_000_000,
        ),
        Scenario("idle-1000", "1000 connections that only connect", WORKERS_ROWS, streams=0, idle=1000),
        Scenario(
            "join-100",
            "100 viewers that join a running 4 Mbit/s stream at 25/s",
            SERVER_ROWS,
            viewers=100,
            options={"connections_per_s": 25},
        ),
        Scenario(
            "slow-200",
            "200 viewers, 30 % with small buffers at 200 kB/s, keyframes of 500 kB",
            SERVER_ROWS,
            viewers=200,
            options={"slow_share": 0.3, "slow_bytes_per_s": 200_000, "slow_receive_buffer": 16_384},
            media={"key_bytes": 500_000},
        ),
        Scenario(
            "features-200",
            "one 4 Mbit/s stream to 200 viewers, facts, recording and JSON logs off and on",
            ("nginx", "penstock", "penstock all on", "floor frame"),
            viewers=200,
        ),
    )
}
