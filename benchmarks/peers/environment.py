"""The environment of other people's private models, and the process there that trains them.

They need an older scikit-learn than this library, so they are installed apart, once, with fixed versions; a worker process
there (``peers/worker.py``) is handed arrays and gives predictions.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core.process import Worker
from benchmarks.core.results import NotMeasured, Row
from benchmarks.peers.settings import LEFT_OUT
from dpforest.errors import ParameterError
from dpforest.records.categories import category_codes
from dpforest.records.columns import read_columns, to_numbers
from dpforest.schema import Categorical, Classes, Schema

PINS = (
    "diffprivlib==0.6.6",
    "interpret-core==0.7.8",
    "numpy==2.2.6",
    "pandas==2.2.3",
    "scikit-learn==1.6.1",
    "scipy==1.15.3",
)
Usable = tuple[dict[str, np.ndarray], np.ndarray]  # a table as arrays, and which of its rows can be used
Handed = tuple[Path, np.ndarray, np.ndarray]  # the file of a table, rows for training, rows for testing
MARK = "peers.txt"  # marks an environment as made here, and holds its versions once it is complete


def build(folder: Path | None, progress: Callable[[str], None]) -> Path:
    """The Python of the peers' environment, which is made if it is not there. Raises ``NotMeasured`` if it cannot be."""
    folder = _cache() if folder is None else Path(folder)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted, mark = "\n".join(PINS), folder / MARK
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return python
    if folder.exists() and not mark.exists() and any(folder.iterdir()):
        raise ParameterError(f"{folder} has files that are not an environment of the peers. Name an empty or new folder.")
    progress(f"installing the peers in {folder}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark.write_text("", encoding="utf-8")
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *PINS],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        reason = said[-1] if said else "no reason was given"
        raise NotMeasured(f"The peers could not be installed in {folder}: {reason}") from None
    mark.write_text(wanted, encoding="utf-8")
    return python


def _cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "dpforest" / f"peers-{hashlib.sha256('|'.join(PINS).encode()).hexdigest()[:12]}"


def arrays_of(table: str, X: Any, y: Any, schema: Schema) -> Usable:
    """A table as the worker reads it, and which rows it can use: those without a missing number.

    A missing category is a category of its own, where a column has any. Numbers are clipped to their public bounds.
    """
    columns, lower, upper, n_categories = [], [], [], []
    for (name, feature), column in zip(schema.features.items(), read_columns(X, schema), strict=True):
        if name in LEFT_OUT.get(table, ()):
            continue
        if isinstance(feature, Categorical):
            n_listed = feature.n_values
            indices = np.minimum(category_codes(column, feature), n_listed)
            n_categories.append(n_listed + int((indices == n_listed).any()))
            lower.append(0.0)
            upper.append(max(1.0, n_categories[-1] - 1))
            columns.append(indices.astype(float))
        else:
            n_categories.append(0)
            lower.append(feature.range[0])
            upper.append(feature.range[1])
            columns.append(np.clip(to_numbers(column).astype(float), *feature.range))
    features = np.column_stack(columns)
    target = schema.target
    n_classes, bounds = (target.width, (0.0, 1.0)) if isinstance(target, Classes) else (0, target.range)
    arrays = {
        "features": features,
        "n_categories": np.array(n_categories),
        "lower": np.array(lower),
        "upper": np.array(upper),
        "target": np.asarray(y),
        "n_classes": np.array(n_classes),
        "target_bounds": np.array(bounds),
    }
    return arrays, ~np.isnan(features).any(axis=1)


class Trainer:
    """Has models trained, one after the other, by a process of the peers' Python. It ends with this process."""

    def __init__(self, python: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dpforest-peers-")
        self._data: tuple[Any, Handed] | None = None
        # One thread: cases run side by side.
        self._worker = Worker("benchmarks.peers.worker", 1, python)

    def data(self, name: Any, table: Callable[[], Usable], train: np.ndarray, test: np.ndarray) -> Handed:
        """The file with a table and its split, and the rows of the split that can be used. Kept until the name changes."""
        if self._data is None or self._data[0] != name:
            arrays, usable = table()
            train, test = train[usable[train]], test[usable[test]]
            path = Path(self._folder.name) / f"{hashlib.sha256(repr(name).encode()).hexdigest()[:12]}.npz"
            np.savez(path, allow_pickle=False, **arrays, train=train, test=test)
            if self._data is not None:
                self._data[1][0].unlink(missing_ok=True)
            self._data = (name, (path, train, test))
        return self._data[1]

    def train(self, request: Row) -> tuple[np.ndarray, Row]:
        """Predictions for the test rows, and what the worker says about the training."""
        out = Path(self._folder.name) / "predictions.npy"
        answer = self._worker.ask(request | {"out": str(out)})
        return np.load(out), answer

    def close(self) -> None:
        """End the process and remove its files."""
        self._worker.end()
        self._folder.cleanup()


trainer = lru_cache(maxsize=1)(Trainer)
