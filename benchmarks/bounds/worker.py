"""Trains the default recipe in a process of its own, so that an earlier state of the library can be measured beside this.

One line of JSON comes in for each fit: table, kind of bounds, budget, split. One goes out: score, time and what was spent.
"""

import subprocess
import time
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dpforest
from benchmarks.bounds.loosening import load, split_rows
from benchmarks.core.serve import serve
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.privacy.composition import entries, shared
from dpforest.privacy.ledger import Ledger
from dpforest.schema import Classes

Answer = dict[str, Any]


def measured(request: Answer) -> Answer:
    """The score of one fit and of the best constant guess, the seconds of the fit, and what the fit spent on what."""
    X, y, schema = load(request["table"], request["kind"], request["loosened"])
    train, test = split_rows(y, request["seed"])
    kind = DPForestClassifier if isinstance(schema.target, Classes) else DPForestRegressor
    model = kind(schema, epsilon=request["epsilon"], delta=request["delta"])
    rows, known = X.take(train), y[train]
    start = time.perf_counter()
    model.fit(rows, known)
    seconds = time.perf_counter() - start
    return {
        "score": score(model.predict(X.take(test)), y[test], kind is DPForestClassifier),
        "guess": score(guess(known, kind is DPForestClassifier), y[test], kind is DPForestClassifier),
        "seconds": round(seconds, 4),
        "n_train": len(train),
        "n_test": len(test),
        "epsilon_spent": model.privacy_.epsilon,
        "commit": commit(),
        **spending(model.ledger_),
    }


def score(predicted: Any, actual: np.ndarray, has_classes: bool) -> float:
    """Accuracy, or R²."""
    if has_classes:
        return round(float((actual == predicted).mean()), 6)
    return round(float(1 - np.square(actual - predicted).mean() / actual.var()), 6)


def guess(known: np.ndarray, has_classes: bool) -> Any:
    """The best constant answer: the commonest class, or the mean."""
    return np.bincount(known).argmax() if has_classes else known.mean()


def spending(ledger: Ledger) -> Answer:
    """The share of the loss that charges of each kind have, and the passes over the table that were made for the grid."""
    books = [book for book in ledger.books if book.root.children]
    shares: dict[str, float] = defaultdict(float)
    steps: Counter[str | None] = Counter()
    for book, root in zip(books, shared((book.root, book.accountant) for book in books), strict=True):
        for (_, entry), share in zip(entries(book.root), root.shares, strict=True):
            shares[entry.purpose.kind] += float(share)
            if entry.purpose.kind == "grid":
                steps[entry.purpose.step] += 1
    # In each pass one choice is made for each column, and in the last the quarters are chosen.
    passes = steps.total() // steps["quarters"] if steps else 0
    return {"shares": {kind: round(share, 5) for kind, share in shares.items()}, "passes": passes}


@cache
def commit() -> str:
    """The last commit that changed the library's sources, with a + where they were changed since; or else the version."""
    folder = Path(dpforest.__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout.strip()

    try:
        return git("log", "-1", "--format=%h", "--abbrev=7", "--", ".") + (
            "+" if git("status", "--porcelain", "--", ".") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return str(dpforest.__version__)


if __name__ == "__main__":
    serve(measured)
