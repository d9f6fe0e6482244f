"""How many cores may be used: by affinity, and by the quota of a cgroup of either version, at any level."""

import os
from pathlib import Path

import pytest

from penstock.serve.supervisor.cgroup import usable_cores


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


V2 = {"proc/self/cgroup": "0::/system.slice/penstock.service\n"}
V1 = {"proc/self/cgroup": "12:memory:/docker/ab\n5:cpu,cpuacct:/docker/ab\n0::/\n"}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        (V2, 8),
        ({**V2, "sys/fs/cgroup/system.slice/penstock.service/cpu.max": "max 100000\n"}, 8),
        ({**V2, "sys/fs/cgroup/system.slice/penstock.service/cpu.max": "350000 100000\n"}, 3),
        ({**V2, "sys/fs/cgroup/system.slice/penstock.service/cpu.max": "50000 100000\n"}, 1),
        ({**V2, "sys/fs/cgroup/system.slice/cpu.max": "200000 100000\n"}, 2),
        ({**V2, "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({**V2, "sys/fs/cgroup/cpu.max": "1600000 100000\n"}, 8),
        ({**V2, "sys/fs/cgroup/cpu.max": "nonsense\n"}, 8),
        (
            {
                **V1,
                "sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                **V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                **V1,
                "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
def test_cores_are_as_many_as_affinity_and_quota_allow(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    assert usable_cores(plant(tmp_path, files)) == cores


def test_the_real_machine_has_at_least_one_core() -> None:
    assert 1 <= usable_cores() <= 8
