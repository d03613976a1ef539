"""Finds how many processor cores this process may use."""

import os
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path

_CGROUP_OF_SELF = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
MAX_WORKERS = 256


def default_workers() -> int:
    """Returns half of the usable cores, at least one. Postgres, the proxy and the kernel need the others.

    More workers would not serve more: each would collect smaller batches, and a request would take more CPU.
    """
    return min(max(1, int(usable_cores() / 2)), MAX_WORKERS)


def usable_cores() -> float:
    """Returns the number of cores that CPU affinity and the CPU quotas of all enclosing control groups allow."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(affinity, *_quotas(), inf)


def _quotas() -> Iterator[float]:
    """Yields the quotas in cores; there are none outside Linux."""
    with suppress(OSError):
        for line in _CGROUP_OF_SELF.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            # Version 2 has one tree without controllers, version 1 a tree for each controller.
            if controllers and "cpu" not in controllers.split(","):
                continue
            tree = _CGROUPS / "cpu" if controllers else _CGROUPS
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
            own = tree / path.lstrip("/")
            # A container may see another path than its own tree has: then only the tree's root exists.
            for group in (own, *own.parents):
                if group.is_relative_to(tree):
                    with suppress(OSError, ValueError):  # there is no such file, or no quota: "max"
                        quota, period = (int(word) for file in files for word in (group / file).read_text().split())
                        if quota > 0:  # -1: none
                            yield quota / period
