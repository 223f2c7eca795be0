"""Processes in which cases are measured."""

import json
import os
import subprocess
import sys
from typing import Any

Answer = dict[str, Any]


class NotMeasured(Exception):
    """A case that cannot be measured here, with the reason."""


class Workers:
    """Asks a worker: one that is alone with the request, or one that stays for others, which saves its start."""

    def __init__(self, threads: int) -> None:
        self._environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: Any) -> None:
        self._end()

    def ask(self, request: Answer, alone: bool) -> Answer:
        """What a worker says to a request."""
        if alone:
            self._end()
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise NotMeasured(f"the worker ended with code {self._end()} before it answered")
        if alone:
            self._end()
        answer = json.loads(line)
        if "error" in answer:
            raise NotMeasured(answer["error"])
        return answer

    def _start(self) -> "subprocess.Popen[str]":
        program = [sys.executable, "-m", "dpforest.bench.speed_worker"]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            program, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=self._environment
        )

    def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        return process.wait()
