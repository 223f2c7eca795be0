"""The command in this process: what it says and how it ends; and a table of people for it, with models of them."""

import json
import signal
import sys
import warnings
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.cli.main import app, commands
from dpforest.errors import DPForestError

FEATURES = {"age": Numeric(0, 100, integer=True), "city": Categorical(["Oslo", "Rome"])}
ILL = Schema(FEATURES, Classes(["no", "yes"], name="ill"), one_row_per_person=True)
COST = Schema(FEATURES, Bounded(0, 60, name="cost"), one_row_per_person=True)


@contextmanager
def alone():
    """A context in which what the collector finds of other tests is no word of a command."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def run(*words, **settings):
    """How a command ends, with the error that was not caught."""
    with alone():
        return CliRunner().invoke(commands, [*map(str, words)], **settings)


def done(*words):
    """What a command printed that ended well and had nothing to complain of."""
    found = run(*words)
    assert (found.exit_code, found.stderr) == (0, ""), found.output + str(found.exception)
    return found.stdout


def refused(*words):
    """The words of a refusal, which are the same for whoever calls the library."""
    error = run(*words).exception
    assert isinstance(error, DPForestError), error
    return str(error)


class Ended(NamedTuple):
    """How a process would have ended, and what it would have written."""

    code: int
    out: str
    err: str


def typed(*words, cwd="."):
    """As the installed command ends, refusals in its own words."""
    out, err, handler = StringIO(), StringIO(), signal.getsignal(signal.SIGTERM)
    try:
        with (
            alone(),
            chdir(cwd),
            patch.object(sys, "argv", ["dpforest", *map(str, words)]),
            redirect_stdout(out),
            redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            app()
    finally:
        signal.signal(signal.SIGTERM, handler)
    return Ended(ended.value.code or 0, out.getvalue(), err.getvalue())


def fill_in(path, **entries):
    """Write a draft again with each "?" replaced, as with an editor, and nothing else."""
    text = path.read_text("utf-8")
    for name, value in {"vouched_by": "somebody", "one_row_per_person": True, **entries}.items():
        text = text.replace(f'{name} = "?"', f"{name} = {json.dumps(value)}")
    path.write_text(text, "utf-8")


def people(n_rows=400):
    """Rows of people; their illness and what they cost follow from their age."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, n_rows)
    return pa.table(
        {
            "age": age,
            "id": np.arange(n_rows),
            "city": rng.choice(["Oslo", "Rome", "Lima"], n_rows),
            "ill": np.where(age > 50, "yes", "no"),
            "cost": age / 2.0,
            "person": [f"p{place // 3}" for place in range(n_rows)],
        }
    )


def write_people(n_rows=400):
    """The rows in the folder of this moment, as text and as Parquet, with both schemas and a model of each."""
    pyarrow.csv.write_csv(people(n_rows), "t.csv")
    pyarrow.parquet.write_table(people(n_rows), "t.parquet")
    ILL.to_file("ill.json")
    COST.to_file("cost.toml")
    for name in ("ill", "cost"):
        model(name).save(f"{name}.dpf")


@cache
def model(target):
    """A model of people that all tests share; none changes it."""
    untrained = {"ill": DPForestClassifier(ILL, epsilon=20), "cost": DPForestRegressor(COST, epsilon=20)}[target]
    return untrained.fit(people().select([*FEATURES]), people().column(target))
