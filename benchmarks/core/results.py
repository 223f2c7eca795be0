"""Cases, and the file that holds their rows. A run may be stopped at any time and goes on where it was.

A case says what to measure on what; a row is its case and what was measured, as one line of JSON. Tables and figures are
made from rows. A case that cannot be run is a row too, with the reason, and is tried again the next time.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from dpforest.common.work import Step
from dpforest.errors import DPForestError, ParameterError

# What identifies a case in a row.
FIELDS = ("question", "dataset", "system", "variant", "parameters", "seed")

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What to train on what table. ``variant`` is "private", "published" or "no privacy"; the seed is that of the split."""

    question: str
    dataset: str
    system: str
    variant: str
    parameters: tuple[tuple[str, Any], ...]
    seed: int

    @classmethod
    def of(cls, question: str, dataset: str, system: str, variant: str, seed: int, **parameters: Any) -> "Case":
        return cls(question, dataset, system, variant, tuple(sorted(parameters.items())), seed)

    def to_dict(self) -> Row:
        content = {name: getattr(self, name) for name in FIELDS}
        return content | {"parameters": dict(self.parameters)}


class NotMeasured(DPForestError):
    """A case that cannot be measured here, with the reason."""


def check_known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a name that this benchmark does not have."""
    listed = list(known)
    for name in names:
        if name not in listed:
            raise ParameterError(f"There is no {what} {name!r} in this benchmark. Known: {', '.join(listed)}.")


def key(row: Row) -> str:
    """The text by which rows of the same case are known."""
    return json.dumps({name: row[name] for name in FIELDS}, sort_keys=True)


def group(row: Row) -> str:
    """The text by which rows of the same case on different splits are known."""
    return key(row | {"seed": None})


def attempted(measure: Callable[[], Row]) -> Row:
    """What was measured, or under "absent" why not: one case that fails must not stop the others."""
    try:
        return measure()
    except DPForestError as error:
        return {"absent": str(error)}
    except Exception as error:
        return {"absent": f"failed with {type(error).__name__}: {error}"}


def read_rows(results: Path, question: str | None = None) -> list[Row]:
    """All rows of a file, or those of one question; a last line that a crash cut off is left out."""
    if not results.exists():
        return []
    *lines, last = results.read_text(encoding="utf-8").split("\n")
    del last  # empty after a complete line, else torn
    rows = [json.loads(line) for line in lines if line]
    return [row for row in rows if question in (None, row.get("question"))]


def finished(rows: Iterable[Row]) -> dict[str, Row]:
    """The measured rows by their key."""
    return {key(row): row for row in rows if "absent" not in row}


def missing(rows: Iterable[Row]) -> list[Row]:
    """For each case that could not be measured the last row, which says why."""
    every = list(rows)
    done = finished(every)
    return list({key(row): row for row in every if key(row) not in done}.values())


def run_all(
    cases: Iterable[Case],
    measure: Callable[[Case], Row],
    results: Path,
    progress: Callable[[str], None] = lambda step: None,
    n_jobs: int = 1,
) -> Iterator[Row]:
    """Run what has no row yet; each new row is written at once, then yielded. A crash loses what was being measured."""
    _cut_torn_line(results)
    done = finished(read_rows(results))
    todo = [case for case in cases if key(case.to_dict()) not in done]
    workers = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")
    rows = workers(delayed(measure)(case) for case in todo)
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a", encoding="utf-8") as file:
        for number, row in enumerate(rows, start=1):
            file.write(json.dumps(row) + "\n")
            file.flush()
            name = f"{number} of {len(todo)}: {row['dataset']}, {row['system']}, {row['variant']}"
            progress(Step(name, number, len(todo)))
            yield row


def _cut_torn_line(results: Path) -> None:
    if not results.exists():
        return
    with results.open("rb+") as file:
        content = file.read()
        # A whole file is left alone: another run may be writing to it.
        if not content.endswith(b"\n"):
            file.truncate(content.rfind(b"\n") + 1)
