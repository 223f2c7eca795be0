"""What tests of benchmarks share: a small table of every kind of column, and files of rows that were made up."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from typer.testing import CliRunner

from benchmarks.commands import commands
from dpforest import Bounded, Categorical, Classes, Numeric, Schema

BENCH = Path(__file__).parents[2] / "docs" / "bench"  # what was measured, and the pages that are made of it


def toy(n_classes, n_rows):
    """Rows, a target and their schema, as ``load_dataset`` gives them; a target of no classes is a number."""
    rng = np.random.default_rng(0)
    x, z = rng.random(n_rows), rng.integers(0, 8, n_rows)
    texts = {f"c{place}": rng.choice(["a", "b", "c"], n_rows) for place in range(4)}
    score = x + (texts["c0"] == "a")
    X = pa.table({"x": x, "z": z, **texts})
    features = {"x": Numeric(0, 1), "z": Numeric(0, 7, integer=True)}
    features |= {column: Categorical(["a", "b", "c"]) for column in texts}
    if not n_classes:
        return X, pa.chunked_array([score]), Schema(features, Bounded(0, 2))
    labels = np.array(["no", "yes", "maybe"])[:n_classes]
    y = labels[np.minimum((score / 2 * n_classes).astype(int), n_classes - 1)]
    return X, pa.chunked_array([y]), Schema(features, Classes(labels.tolist()))


def kept(rows, folder):
    """A file of rows as a run would keep them."""
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def said_by(*words):
    """What ``python -m benchmarks`` prints."""
    done = CliRunner().invoke(commands, words)
    assert done.exit_code == 0, done.output
    return done.output
