"""The loop of a worker process: requests come in as lines of JSON, answers go out as such. Needs nothing of dpforest."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def serve(work: Callable[[Any], dict[str, Any]]) -> None:
    """Answer each line of the standard input with what ``work`` makes of it, on the standard output."""
    # Answers have the standard output to themselves: what libraries print goes to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer = work(json.loads(line))
        except Exception as error:  # one that fails must not stop the others
            answer = {"error": f"failed with {type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
