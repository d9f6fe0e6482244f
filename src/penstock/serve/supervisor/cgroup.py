"""How many cores this process may use: by its affinity and by the CPU quota of its cgroup, of either version.

Owns where the kernel tells it (sched_setaffinity(2), cgroups(7)). A container with a quota of two cores on a machine of
64 sees all 64 everywhere else.
"""

import os
from collections.abc import Iterator
from pathlib import Path


def usable_cores(root: Path = Path("/")) -> int:
    """At least 1. Half a core more is none for a process that would use a whole one."""
    quota = min(_quotas(root), default=float("inf"))
    return max(1, int(min(len(os.sched_getaffinity(0)), quota)))


def _quotas(root: Path) -> Iterator[float]:
    """In cores, of every group that this process is in, directly or not."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            for group in _with_parents(root / "sys/fs/cgroup", path):
                yield from _ratio(*_text(group / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for mount in (controllers, "cpu"):
                for group in _with_parents(root / "sys/fs/cgroup" / mount, path):
                    yield from _ratio(_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us"))


def _with_parents(mount: Path, path: str) -> Iterator[Path]:
    """In a container the group may be mounted where the root would be, so that is looked at in any case."""
    group = mount / path.lstrip("/")
    while True:
        yield group
        if group == mount or mount not in group.parents:
            return
        group = group.parent


def _ratio(quota: str = "max", period: str = "0", *_more: str) -> Iterator[float]:
    """Nothing where there is no quota, which is `max` or -1."""
    if quota.strip().isdecimal() and period.strip().isdecimal() and int(period) > 0:
        yield int(quota) / int(period)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
