"""Other people's private models: which settings are tried, and the environment that they run in.

They need an older scikit-learn than this library, so they are installed apart, once, with fixed versions; a worker process
there (``peers_worker.py``) is handed arrays and gives predictions. Whoever has a setting of its own choice gets the best of
those listed here.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.bench import peers_worker
from dpforest.errors import DPForestError, ParameterError
from dpforest.records.columns import read_columns, to_indices, to_numbers
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
# A number that nearly no row of the table has would cost these systems nearly all rows.
LEFT_OUT = {"heart_hungarian": ("ca",)}


class NoPeers(DPForestError):
    """The environment of the peers cannot be built."""


@dataclass(frozen=True)
class Peer:
    """A system, the tasks that it does, and its settings with the most useful first.

    ``delta`` is 0 for systems that are purely private. On large tables only ``n_settings_large`` settings are tried.
    """

    system: str
    tasks: tuple[str, ...]
    settings: tuple[dict[str, Any], ...]
    delta: float = 0.0
    n_settings_large: int = 2


def _trees(n_trees: int, depth: int) -> dict[str, Any]:
    return {"n_estimators": n_trees, "max_depth": depth}


def _rounds(n: int, rate: float, n_bins: int) -> dict[str, Any]:
    return {"max_rounds": n, "learning_rate": rate, "max_bins": n_bins}


BOTH = ("binary", "classes")
PEERS = (
    Peer(
        "diffprivlib forest",
        BOTH,
        (_trees(1, 12), _trees(25, 8), _trees(5, 8), _trees(10, 8), _trees(5, 12), _trees(50, 8), _trees(10, 4)),
    ),
    Peer(
        "diffprivlib naive Bayes",
        BOTH,
        ({"form": "ordinal", "var_smoothing": 1e-9}, {"form": "one-hot", "var_smoothing": 0.1}),
    ),
    Peer("diffprivlib logistic regression", BOTH, ({"C": 0.01}, {"C": 0.001}, {"C": 0.1}), n_settings_large=1),
    Peer(
        "diffprivlib linear regression",
        ("regression",),
        (
            {"form": "one-hot", "fit_intercept": True},
            {"form": "ordinal", "fit_intercept": True},
            {"form": "one-hot", "fit_intercept": False},
        ),
    ),
    Peer(
        "interpret DP-EBM",
        ("binary",),
        (
            _rounds(100, 0.3, 16),
            _rounds(100, 1.0, 32),
            {},
            _rounds(20, 1.0, 16),
            _rounds(100, 0.1, 8),
            _rounds(20, 0.05, 8),
            _rounds(100, 0.3, 32),
        ),
        delta=1e-5,
    ),
    Peer(
        "interpret DP-EBM",
        ("regression",),
        (_rounds(20, 0.05, 8), _rounds(100, 0.03, 16), {}, _rounds(20, 0.01, 8), _rounds(100, 0.1, 32)),
        delta=1e-5,
        n_settings_large=3,
    ),
)
# Tables on which fewer settings are tried, and rows that a slow system is given at most.
LARGE = ("connect4", "covertype_93k", "kddcup99_10pct", "nycflights13", "irrelevant_features", "fifty_classes")
MOST_ROWS = {("kddcup99_10pct", "diffprivlib logistic regression"): 20_000}


def settings_of(peer: Peer, table: str) -> tuple[dict[str, Any], ...]:
    """What is tried on a table."""
    return peer.settings[: peer.n_settings_large] if table in LARGE else peer.settings


def build(folder: Path | None, progress: Callable[[str], None]) -> Path:
    """The Python of the peers' environment, which is made if it is not there. Raises ``NoPeers`` if it cannot be."""
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
        raise NoPeers(f"The peers could not be installed in {folder}: {reason}") from None
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
            n_listed = len(feature.categories)
            places = to_indices(column, feature.categories, n_listed, n_listed)
            n_categories.append(n_listed + int((places == n_listed).any()))
            lower.append(0.0)
            upper.append(max(1.0, n_categories[-1] - 1))
            columns.append(places.astype(float))
        else:
            n_categories.append(0)
            lower.append(float(feature.lower))
            upper.append(float(feature.upper))
            columns.append(np.clip(to_numbers(column).astype(float), feature.lower, feature.upper))
    features = np.column_stack(columns)
    target = schema.target
    n_classes, bounds = (target.width, (0.0, 1.0)) if isinstance(target, Classes) else (0, (target.lower, target.upper))
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


class Worker:
    """A process of the peers' Python that trains one model after the other. It ends with this process."""

    def __init__(self, python: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dpforest-peers-")
        self._data: tuple[Any, Handed] | None = None
        self._command = [str(python), peers_worker.__file__]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        # One thread: cases run side by side.
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True, env=os.environ | one)

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

    def train(self, request: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
        """Predictions for the test rows, and what the worker says about the training."""
        out = Path(self._folder.name) / "predictions.npy"
        if self._process.poll() is not None:
            self._process = self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request | {"out": str(out)}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise NoPeers("The worker of the peers ended without an answer.")
        answer = json.loads(line)
        if "error" in answer:
            raise NoPeers(answer["error"])
        return np.load(out), answer

    def close(self) -> None:
        """End the process and remove its files."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()
        self._folder.cleanup()


worker = lru_cache(maxsize=1)(Worker)
