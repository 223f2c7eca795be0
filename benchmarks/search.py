"""Is a private search worth its price? Accuracy on adult of a search and of the default recipe at the same total epsilon.

Rows are kept in a file, one for each split, system and epsilon; a second run goes on where it ended.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from benchmarks.core.page import table_text, write_page
from benchmarks.core.results import Row, read_rows
from benchmarks.core.trials import HeldOut
from benchmarks.papers.views import load_view
from dpforest.common.files import write_whole
from dpforest.estimators import DPForestClassifier
from dpforest.schema import Schema
from dpforest.search import DPSearchCV

TABLE = "adult"
EPSILONS = (0.5, 1.0, 2.0)
GOAL = 1.0  # points of accuracy below the default recipe at epsilon = 1
SPLIT = HeldOut(0.25)
# What is searched, by name; "auto" alone is the default recipe without a search.
SPACES: dict[str, Any] = {
    "auto": None,
    "search, shapes of auto": {"recipe": ["auto"], "max_depth": [None, 3, 5, 7]},
    "search, five recipes": {
        "recipe": ["auto", "jagannathan-2009", "fletcher-islam-2017", "friedman-schuster-2010", "consul-2020"]
    },
}


def run(progress: Callable[[str], None], results: Path, n_splits: int) -> Iterator[Row]:
    """Measure what ``results`` does not have yet and yield the new rows."""
    rows = read_rows(results)
    known = {_key(row) for row in rows}
    X, y, schema = load_view(TABLE)
    for seed in range(n_splits):
        for epsilon in EPSILONS:
            for system in SPACES:
                if (system, epsilon, seed) in known:
                    continue
                progress(f"{TABLE}, split {seed + 1} of {n_splits}, epsilon {epsilon:g}, {system}")
                rows.append(_measure(X, np.asarray(y), schema, system, epsilon, seed))
                write_whole(results, "".join(json.dumps(row) + "\n" for row in rows).encode())
                yield rows[-1]


def _key(row: Row) -> tuple[str, float, int]:
    return row["system"], row["epsilon"], row["seed"]


def _measure(X: Any, y: np.ndarray, schema: Schema, system: str, epsilon: float, seed: int) -> Row:
    train, test = SPLIT.rows(y, seed)
    forest = DPForestClassifier(schema, epsilon=epsilon, n_jobs=-1)
    space = SPACES[system]
    model = forest if space is None else DPSearchCV(forest, space, epsilon=epsilon)
    start = time.perf_counter()
    model.fit(X.take(train), y[train])
    seconds = time.perf_counter() - start
    accuracy = float((model.predict(X.take(test)) == y[test]).mean())
    return {
        "table": TABLE, "system": system, "epsilon": epsilon, "seed": seed, "accuracy": accuracy,
        "chosen": None if space is None else model.best_params_, "spent": model.privacy_.epsilon, "seconds": seconds,
    }  # fmt: skip


def side_by_side(results: Path) -> list[Row]:
    """For each epsilon and system: mean accuracy, its difference from auto on the same splits, and the time."""
    rows = read_rows(results)
    found = []
    for epsilon in EPSILONS:
        own = {(row["system"], row["seed"]): row for row in rows if row["epsilon"] == epsilon}
        for system in SPACES:
            seeds = [seed for name, seed in own if name == system and ("auto", seed) in own]
            if seeds:
                found.append(_summary(epsilon, system, own, seeds))
    return found


def _summary(epsilon: float, system: str, own: dict[tuple[str, int], Row], seeds: list[int]) -> Row:
    accuracies = [100 * own[system, seed]["accuracy"] for seed in seeds]
    gaps = [accuracy - 100 * own["auto", seed]["accuracy"] for accuracy, seed in zip(accuracies, seeds, strict=True)]
    spread = stdev(gaps) if len(gaps) > 1 else 0.0
    return {
        "epsilon": f"{epsilon:g}",
        "system": system,
        "accuracy": f"{mean(accuracies):.2f}",
        "against auto": "" if system == "auto" else f"{mean(gaps):+.2f} (sd {spread:.2f}, worst {min(gaps):+.2f})",
        "seconds": f"{mean(own[system, seed]['seconds'] for seed in seeds):.1f}",
        "splits": len(seeds),
    }


def _gap(line: Row) -> float:
    return float(line["against auto"].split()[0])


def write(results: Path, folder: Path) -> Path:
    """Write the page into a folder, from the rows of a results file."""
    lines = side_by_side(results)
    verdicts = [
        f"* {line['system']}: {line['against auto']}, {'met' if _gap(line) >= -GOAL else 'not met'}.\n"
        for line in lines
        if line["epsilon"] == "1" and line["system"] != "auto"
    ]
    searched = "; ".join(f"*{name}*: `{space}`" for name, space in SPACES.items() if space is not None)
    text = f"""# Private search, measured

Accuracy (%) on adult of `DPSearchCV` and of `recipe="auto"` without a search, at the same total ε, on the same \
splits (75 % train). A search scores with 20 % of its rows and makes 10 runs on average. Made by:

    DPFOREST_DATA=tables dpforest bench search --results docs/bench/search.jsonl --report docs/bench

{table_text([{name: str(value) for name, value in line.items()} for line in lines])}
Goal: at ε = 1 no more than {GOAL:g} point below `auto` at ε = 1.

{"".join(verdicts)}
What was searched: {searched}. What to make of it is in [the guide](../guide/search.md).
"""
    return write_page(folder, "search.md", text)
