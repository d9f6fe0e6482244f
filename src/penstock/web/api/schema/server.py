"""The shapes of the server as a whole, of its workers and of its processes."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from penstock.web.api.models import Count


class Process(BaseModel):
    """A process of the server, or a worker's. What is not known, since it has just ended, is null."""

    pid: int
    memory_bytes: Count | None
    """Resident; what processes share is counted for each."""
    cpu_s: float | None
    """User and system time since it began."""
    started_at: datetime | None


class ServerProcess(Process):
    """A process of the server."""

    role: Literal["supervisor", "web", "worker"]
    worker: int | None
    """Its number, of a worker."""


class Worker(Process):
    """A process that serves media."""

    worker: int
    state: Literal["ready", "silent"]
    """Silent: it has not told its figures for 5 s."""
    busy_share: float
    """How much of its time its loop does not wait."""
    connections: Count
    publishers: Count
    viewers: Count
    streams: Count
    received_bytes: Count
    sent_bytes: Count
    viewer_skips: Count
    flush_interval_ms: float
    """How often streams are sent; longer under load where `flush` is `auto`."""
    log_bytes: Count
    """Recent media that is kept for those who join or lag."""
    log_budget_bytes: Count
    recorder_backlog_bytes: Count | None
    """What the disk has yet to take; null: nothing is recorded here."""


class Load(BaseModel):
    """How much there is to do, and what there is to do it with."""

    busiest_worker_share: float
    machine_1min: float
    """Processes that ran or waited to, of the whole machine."""
    cores: Count


class Server(BaseModel):
    """The server as a whole."""

    server_id: str
    version: str
    life_id: str
    """One life of the supervisor."""
    state: Literal["ready", "draining", "stopping", "not ready"]
    complaint: str | None
    """Why it is not ready, or which worker does not answer."""
    started_at: datetime
    workers: Count
    connections: Count
    publishers: Count
    viewers: Count
    streams: Count
    received_bytes: Count
    sent_bytes: Count
    listening: dict[str, str]
    """Where it listens: HOST:PORT of `rtmp`, and where there are any of `rtmps`, `http` and `https`."""
    load: Load
    limits_hit: dict[str, Count]
    """How often each limit was hit since the server started, by its name."""
    processes: list[ServerProcess]
