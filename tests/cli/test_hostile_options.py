"""Whatever number or text a parameter or an option is given, the outcome is a result or a refusal, never a traceback."""

import math
import shlex
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import typer.main
from tests.cli.command import done, run

from dpforest import Bounded, Budget, Categorical, Classes, DPForestClassifier, Numeric, Schema, load_model
from dpforest.cli.main import commands
from dpforest.errors import DPForestError
from dpforest.evaluation import evaluate_privately

pytestmark = pytest.mark.slow

HALF = "half \ud800"
NUMBERS = [math.nan, math.inf, -math.inf, 0, -1, 1e308, 5e-324, 10**400, Fraction(1, 10**400), 1j, np.float64("nan")]
VALUES = [*NUMBERS, "nan", "inf", HALF, "a\0b", "", "\u202e", "x" * 5000, None, b"1", [HALF], {}]
TABLE = pd.DataFrame({"x": np.linspace(0, 1, 20), "c": ["a", "b"] * 10, "y": ["no", "yes"] * 10})
SCHEMA = Schema({"x": Numeric(0, 1), "c": Categorical(["a", "b"])}, Classes(["no", "yes"], name="y"))
SMALL = {"recipe": "jagannathan-2009", "n_trees": 1, "max_depth": 1}


@pytest.fixture(scope="module")
def model():
    return DPForestClassifier(SCHEMA, epsilon=5.0, **SMALL).fit(TABLE[["x", "c"]], TABLE["y"])


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch, model):
    """A folder of its own with a table, its schema, a model and a budget."""
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    SCHEMA.to_file("s.toml")
    model.save("m.dpf")
    Budget.open("b.db", "d", epsilon=1.0)


def fit(schema=SCHEMA, **parameters):
    given = {"epsilon": 1.0, **SMALL, **parameters}
    return DPForestClassifier(schema, **given).fit(TABLE[[*schema.features]], TABLE["y"])


def small(features, **facts):
    return Schema(features, Classes(["no", "yes"], name="y"), **facts)


PARAMETERS = {
    "lower": lambda _, value: small({"x": Numeric(value)}).to_file("n.toml"),
    "upper": lambda _, value: fit(small({"x": Numeric(0, value)})),
    "lower of the target": lambda _, value: Bounded(value, 1),
    "category": lambda _, value: fit(small({"c": Categorical([value, "b"])})).save("n.dpf"),
    "label": lambda _, value: Schema({"x": Numeric()}, Classes([value, "b"])).to_file("n.json"),
    "name": lambda _, value: small({value: Numeric()}).to_file("n.toml"),
    "n_rows": lambda _, value: fit(small({"x": Numeric(0, 1)}, n_rows=value)),
    "vouched_by": lambda _, value: small({"x": Numeric()}, vouched_by=value).to_file("n.toml"),
    **{name: lambda _, value, name=name: fit(**{name: value}) for name in (
        "epsilon", "delta", "recipe", "variant", "n_trees", "max_depth", "max_rows_per_person", "n_jobs", "random_state")},
    "default epsilon": lambda _, value: fit(recipe="auto", n_trees=None, epsilon=value).save_report("r.html"),
    "score": lambda model, value: evaluate_privately(model, [(TABLE[["x", "c"]], TABLE["y"])], value),
    "threshold": lambda model, value: evaluate_privately(model, [(TABLE[["x", "c"]], TABLE["y"])], 1.0, threshold=value),
    "compare": lambda model, value: evaluate_privately(model, [(TABLE[["x", "c"]], TABLE["y"])], 1.0, compare=value),
    "min_confidence": lambda model, value: model.forest_.rules(value),
    "min_support": lambda model, value: model.forest_.rules(None, value),
    "save": lambda model, value: model.save(value),
    "load": lambda _, value: load_model(value),
    "report": lambda model, value: model.save_report(value),
    "table": lambda model, value: model.to_sql(value).encode(),
    "ids": lambda model, value: model.to_sql("t", ids=[value]).encode(),
    "purpose": lambda model, value: model.save_report("r.html", about={"purpose": value}),
    "audit": lambda model, value: model.save_report("r.html", {"audits": [value], "attacks": value}),
    "dataset": lambda _, value: repr(Budget.open("n.db", dataset=value, epsilon=1.0).history()),
    "cap": lambda _, value: repr(Budget.open("n.db", dataset="d", epsilon=value, delta=1e-6).left),
    "delta of a cap": lambda _, value: repr(Budget.open("n.db", dataset="d", epsilon=1.0, delta=value).left),
    "budget": lambda _, value: Budget.open(value, dataset="d"),
    "schema file": lambda _, value: Schema.from_file(value),
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_of_any_value_gives_a_result_or_a_refusal(model, name):
    for value in VALUES:
        try:
            PARAMETERS[name](model, value)
        except UnicodeError:
            raise
        except (DPForestError, ValueError, TypeError):
            continue


WORDS = {
    "fit": "t.csv --schema s.toml --epsilon 1 --out n.dpf --recipe jagannathan-2009 --n-trees 1 --max-depth 1",
    "plan": "--schema s.toml --epsilon 1 --rows 100",
    "predict": "m.dpf t.csv --out p.csv",
    "evaluate": "m.dpf t.csv --epsilon 1",
    "report": "m.dpf --out r.html",
    "ledger": "m.dpf",
    "rules": "m.dpf",
    "export": "m.dpf --out e.sql",
    "budget create": "n.db::d --epsilon 1",
    "budget show": "b.db",
    "budget history": "b.db::d",
    "budget verify": "b.db",
    "budget report": "b.db --out page.html",
    "schema draft": "t.csv --out d.toml",
    "schema check": "s.toml --table t.csv",
}
TYPED = ["nan", "inf", "-1", "0", "1e308", "5e-324", "1" + "0" * 400, HALF, "a\0b", "", f"b.db::{HALF}", f"a={HALF}"]


# Before a landing each option is given a third of the texts, those of one option not being those of the next.
@pytest.mark.parametrize("n_turns", [3, pytest.param(1, marks=pytest.mark.night)])
@pytest.mark.parametrize("name", WORDS)
def test_an_option_of_any_text_gives_a_result_or_a_refusal(name, n_turns):
    command = typer.main.get_command(commands)
    for part in name.split():
        command = command.commands[part]
    arguments = [each.name for each in command.params if each.param_type_name == "argument"]
    for place, each in enumerate(command.params):
        for value in [] if getattr(each, "is_flag", False) else TYPED[place % n_turns :: n_turns]:
            given = shlex.split(WORDS[name])
            if each.name in arguments:
                given[arguments.index(each.name)] = value
            else:
                with suppress(ValueError):  # the last one counts, but not of those that may be repeated
                    del given[given.index(each.opts[0]) : given.index(each.opts[0]) + 2]
                given += [each.opts[0], value]
            found = run(*name.split(), *given)
            assert isinstance(found.exception, SystemExit | DPForestError | None), (each.name, value[:20], found.exception)


def test_half_a_character_in_a_label_is_written_as_an_escape(tmp_path):
    schema = Schema({"x": Numeric(0, 1)}, Classes(["no", "\ud800x"], name="y"), n_rows=20)
    labels = ["no"] * 10 + ["\ud800x"] * 10
    DPForestClassifier(schema, epsilon=50.0, recipe="jagannathan-2009").fit(TABLE[["x"]], labels).save("m.dpf")
    for words in ("predict m.dpf t.csv --out p.csv", "rules m.dpf --out r.csv"):
        done(*words.split())
        assert "\\ud800x" in (tmp_path / words.split()[-1]).read_text("utf-8")
