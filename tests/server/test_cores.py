"""`sepu serve` starts a worker for two usable cores."""

import os
from pathlib import Path

import pytest

from sepu.server import cores

# The files of control groups, and the cores that their quotas allow: two machines of version 1, then version 2.
QUOTAS: list[tuple[dict[str, str], float]] = [
    ({"own": "4:cpu,cpuacct:/\n0::/", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 64),
    ({"own": "4:cpu,cpuacct:/docker/1\n", "cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}, 1.5),
    ({"own": "0::/system.slice/sepu@1.service", "system.slice/sepu@1.service/cpu.max": "max 100000\n"}, 64),
    ({"own": "0::/system.slice/sepu@1.service", "system.slice/sepu@1.service/cpu.max": "300000 100000\n"}, 3),
    ({"own": "0::/a/b", "a/cpu.max": "400000 50000\n", "a/b/cpu.max": "900000 100000\n"}, 8),
    ({"own": "0::/a:cri-containerd:b", "a:cri-containerd:b/cpu.max": "500000 100000\n"}, 5),
    ({"own": "0::/../../other", "cpu.max": "600000 100000\n"}, 6),
    ({}, 64),
]


@pytest.mark.parametrize(("files", "usable"), QUOTAS)
def test_the_tightest_quota_counts(
    files: dict[str, str], usable: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(cores, "_CGROUPS", tmp_path)
    monkeypatch.setattr(cores, "_CGROUP_OF_SELF", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert cores.usable_cores() == usable
    assert cores.default_workers() == max(1, int(usable / 2))


def test_affinity_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert cores.usable_cores() <= 1
    assert cores.default_workers() == 1
