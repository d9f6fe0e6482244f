"""The server as a whole: what it is and does, its workers, who asks, and its end."""

import asyncio
import os
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext
from penstock.web.api.guard import caller_of, requires
from penstock.web.api.schema import server as schema
from penstock.web.api.tokens import Role
from penstock.web.board import WorkerState
from penstock.web.process_figures import ProcessFigures, look_at_process


def router(context: ApiContext) -> APIRouter:
    """GET /server, GET /workers, GET /caller, POST /drain."""
    routes = APIRouter(tags=["server"])

    @routes.get("/server", response_model=schema.Server)
    async def get_server(request: Request) -> Response:
        """What the server is and does."""
        now = context.clock()
        total = context.board.server_figures().total
        identity = context.identity
        state = {
            "server_id": identity.server_id,
            "version": identity.version,
            "life_id": identity.life_id,
            "state": context.board.state(now),
            "complaint": context.board.refusal(now) or context.board.complaint(now),
            "started_at": rfc3339(identity.started_at_us),
            "workers": identity.workers,
            "connections": len(context.happenings.state.connections),
            "publishers": total.publishers,
            "viewers": len(context.happenings.state.views),
            "streams": len(context.happenings.state.streams),
            "received_bytes": total.received_bytes,
            "sent_bytes": total.sent_bytes,
            "listening": dict(identity.listening),
            "load": {
                "busiest_worker_share": round(total.busy_share, 4),
                "machine_1min": round(os.getloadavg()[0], 2),
                "cores": len(os.sched_getaffinity(0)),
            },
            "limits_hit": dict(sorted(total.limits_hit.items())),
            "processes": await _processes(context),
        }
        return json_answer(request, state)

    @routes.get("/workers", response_model=models.Items[schema.Worker])
    async def list_workers(request: Request) -> Response:
        """The processes that serve media, all of them."""
        workers = context.board.workers(context.clock())
        processes = await _look(each.pid for each in workers)
        items = [_show_worker(each, processes[each.pid]) for each in workers]
        return json_answer(request, {"items": items, "next_cursor": None})

    @routes.get("/caller", response_model=models.Caller)
    async def get_caller(request: Request) -> Response:
        """Who asks, and in which role: what a page may offer."""
        caller = caller_of(request)
        return json_answer(request, {"name": caller.name, "role": caller.role.name.lower()})

    @routes.post(
        "/drain",
        status_code=HTTPStatus.ACCEPTED,
        response_model=models.Draining,
        dependencies=[requires(Role.ADMIN)],
    )
    async def drain(request: Request, order: models.DrainOrder) -> Response:
        """Take no new connections, and end as for SIGTERM when there are none left or when time is up."""
        context.orders.drain(order.within_s)
        ends_by = rfc3339(round((context.now() + order.within_s) * 1_000_000))
        return json_answer(request, {"ends_by": ends_by}, HTTPStatus.ACCEPTED)

    return routes


async def _processes(context: ApiContext) -> list[dict[str, Any]]:
    others = [(role, None, pid) for role, pid in context.board.pids.items()]
    workers = [("worker", each.worker, each.pid) for each in context.board.workers(context.clock())]
    found = await _look(pid for _, _, pid in (*others, *workers))
    return [
        {"role": role, "worker": worker, **_show_process(pid, found[pid])} for role, worker, pid in (*others, *workers)
    ]


async def _look(pids: Iterable[int]) -> dict[int, ProcessFigures | None]:
    known = list(pids)
    return await asyncio.to_thread(lambda: {pid: look_at_process(pid) for pid in known})


def _show_process(pid: int, process: ProcessFigures | None) -> dict[str, Any]:
    return {
        "pid": pid,
        "memory_bytes": None if process is None else process.memory_bytes,
        "cpu_s": None if process is None else process.cpu_s,
        "started_at": None if process is None else rfc3339(process.started_at_us),
    }


def _show_worker(each: WorkerState, process: ProcessFigures | None) -> dict[str, Any]:
    figures = each.figures
    return {
        "worker": each.worker,
        **_show_process(each.pid, process),
        "state": "silent" if each.is_silent else "ready",
        "busy_share": round(figures.busy_share, 4),
        "connections": figures.connections,
        "publishers": figures.publishers,
        "viewers": figures.viewers,
        "streams": figures.streams,
        "received_bytes": figures.received_bytes,
        "sent_bytes": figures.sent_bytes,
        "viewer_skips": figures.viewer_skips,
        "flush_interval_ms": round(figures.flush_grid_s * 1000, 3),
        "log_bytes": figures.log_bytes,
        "log_budget_bytes": figures.log_budget_bytes,
        "recorder_backlog_bytes": figures.recorder_backlog_bytes,
    }
