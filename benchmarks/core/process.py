"""Worker processes in which cases are measured, and the memory that they take."""

import gc
import json
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.core.results import NotMeasured, Row

ROOT = Path(__file__).parents[2]  # from where a worker imports this package
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Worker:
    """A process that answers requests: alone with each of them, or one that stays for others, which saves starts.

    It runs ``module`` of this package with this Python or another, and ends with the process that started it. What
    ``sources`` holds, such as another state of the library, is imported before anything else of that name.
    """

    def __init__(self, module: str, threads: int, python: str | Path = sys.executable, sources: Path | None = None) -> None:
        self._command = [str(python), "-P", "-m", module]  # without the folder in which the command is typed
        first = None if sources is None else str(sources.resolve())
        path = os.pathsep.join(filter(None, (first, str(ROOT), os.environ.get("PYTHONPATH"))))
        libraries = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self._environment = os.environ | dict.fromkeys(libraries, str(threads)) | {"PYTHONPATH": path}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()

    def ask(self, request: Row, alone: bool = False) -> Row:
        """The answer of the worker to a request; ``alone`` gives it a process of its own."""
        if alone:
            self.end()
        if self._process is None:
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True, env=self._environment
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise NotMeasured(f"the worker ended with code {self.end()} before it answered")
        if alone:
            self.end()
        answer: Row = json.loads(line)
        if "error" in answer:
            raise NotMeasured(answer["error"])
        return answer

    def end(self) -> int | None:
        """End the process, if there is one, and give its exit code; the next request starts another."""
        process, self._process = self._process, None
        if process is None:
            return None
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # of a request that was not read
                    stream.close()
        return process.wait()


def peak_bytes() -> int:
    """The most memory that this process has held since it began, or since the last reset that worked."""
    held = _status("VmHWM")
    if held is not None:
        return held
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def start_watching() -> int:
    """The memory that this process holds now; its peak so far is forgotten where the system allows it."""
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
