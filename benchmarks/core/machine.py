"""Facts about the machine on which rows are measured."""

import os
import platform
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Load from which on a machine is called busy.
BUSY = 0.5


def threads() -> int:
    """The number of cores that this process may use; all systems get so many threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_average() -> float | None:
    """The mean number of processes that wanted to run in the last minute: above 0 before a run, others disturb it."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


@lru_cache
def machine(*libraries: str) -> dict[str, Any]:
    """Facts about where rows come from, with the versions of these libraries."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {library: _version(library) for library in libraries},
    }


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def facts_shown(facts: dict[str, Any], memory: str) -> dict[str, str]:
    """The facts of a machine as text, its memory as the page says sizes."""
    return {
        "processor": facts["processor"],
        "cores": str(facts["cores"]),
        "memory": memory,
        "system": facts["system"],
        "Python": facts["python"],
        "libraries": ", ".join(f"{name} {number}" for name, number in facts["versions"].items()),
    }


def loads(rows: Iterable[dict[str, Any]], when: str) -> list[float]:
    """The loads of the machine that the rows hold under the name ``when``."""
    return [row[when] for row in rows if row.get(when) is not None]
