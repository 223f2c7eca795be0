"""Peak memory of this process, as Linux keeps it."""

import gc
import resource
import sys
from contextlib import suppress
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_bytes() -> int:
    """The most memory that this process has held since it began, or since the last reset that worked."""
    held = _status("VmHWM")
    if held is not None:
        return held
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def start_watching() -> int:
    """Forget the old peak where the system allows it; returns what is held now."""
    gc.collect()
    with suppress(OSError):  # without a reset a peak can only be overstated, never understated
        CLEAR.write_text("5")
    return _status("VmRSS") or peak_bytes()


def _status(name: str) -> int | None:
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return 1024 * int(found[0]) if found else None
