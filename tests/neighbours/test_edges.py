"""What somebody expects at the edges who knows the documentation alone: one odd record decides nothing, nothing is in vain.

Written against the documentation, not against the code. Where noise matters fits are seeded.
"""

import json
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.neighbours.odd_values import HOLDERS
from tests.support.columns import objects
from typer.testing import CliRunner

from dpforest import Budget, Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.cli.main import commands
from dpforest.errors import BudgetError
from dpforest.parts.allocation import LeavesOnly
from dpforest.parts.criteria import GiniCount
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.proposals import Menu
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import EveryRecord
from dpforest.parts.voting import MeanOfShares

pytestmark = pytest.mark.slow

FEATURES = {"age": Numeric(0, 100), "city": Categorical(["Oslo", "Rome"])}
CLASSES = Schema(FEATURES, Classes(["no", "yes"], name="ill"), one_row_per_person=True)


def records(n_rows=80):
    """Records of age, city and illness; who is over 50 is ill."""
    ages = np.random.default_rng(0).integers(0, 100, n_rows)
    return [(float(age), "Oslo" if age % 2 else "Rome", "yes" if age > 50 else "no") for age in ages]


def fit_classes(table, make=objects, **settings):
    X = np.stack([objects([record[place] for record in table]) for place in (0, 1)], axis=1)
    labels = make([record[2] for record in table])
    return DPForestClassifier(CLASSES, **{"epsilon": 1.0, "max_depth": 2} | settings).fit(X, labels)


@pytest.mark.parametrize("make", HOLDERS.values(), ids=HOLDERS)
def test_labels_are_the_same_in_every_container(make):
    in_list, here = (fit_classes(records(), each, random_state=0).forest_.rules() for each in (list, make))
    assert here == in_list


# --- nothing in vain --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.array, pd.Series, pl.Series], ids=["numpy", "pandas", "polars"])
@pytest.mark.parametrize("values", [[0, 1], [0.0, 1.0], [False, True]], ids=["whole", "floats", "truths"])
def test_numbers_for_text_classes_are_an_error_before_anything_is_spent(make, values, tmp_path):
    budget = Budget.open(tmp_path / "budget.db", dataset="ward", epsilon=1.0)
    model = DPForestClassifier(Schema({"x": Numeric(0, 1)}, Classes(["0", "1"])), budget=budget)
    with pytest.raises(ValueError):
        model.fit(np.linspace(0, 1, 20).reshape(-1, 1), make(values * 10))
    assert budget.spent == 0
    assert budget.history() == []


@pytest.mark.parametrize(("epsilon", "n_fits"), [(0.2, 5), (0.1, 10), (0.05, 20)])
def test_a_budget_of_one_allows_as_many_decimal_fits_as_people_count(epsilon, n_fits, tmp_path):
    budget = Budget.open(tmp_path / "budget.db", dataset="ward", epsilon=1)
    X, y = np.linspace(0, 1, 20).reshape(-1, 1), np.arange(20) % 2
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1]))

    def fit():
        settings = {"recipe": "jagannathan-2009", "n_trees": 1, "max_depth": 1}
        return DPForestClassifier(schema, epsilon=epsilon, budget=budget, **settings).fit(X, y)

    said = []
    for _ in range(n_fits):
        fit()
        said += [str(budget.left), run("budget", "show", f"{tmp_path}/budget.db::ward")[1]]
    with pytest.raises(BudgetError) as refused:
        fit()
    assert len(budget.history()) == n_fits
    assert budget.left == 0
    assert not re.search(r"\d[eE]-1\d|\d\.\d{12}", " ".join([*said, str(refused.value)]))


# --- files and commands -----------------------------------------------------------------------------------------------


def run(*words):
    """The exit code of a command, what it prints, and what it says besides: warnings, or the error that it ends with."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        done = CliRunner().invoke(commands, [*map(str, words)])
    return done.exit_code, done.stdout, f"{done.stderr}{done.exception or ''}{[str(warning.message) for warning in told]}"


def fit_file(folder, table, *options):
    """A fit on the command line, with noise in which a table of the sizes here is never lost: what is odd is not said."""
    CLASSES.to_file(folder / "s.json")
    return run("fit", table, "--schema", folder / "s.json", "--epsilon", 20, "--out", folder / "m.dpf", *options)


def write_csv(path, more=(), first=()):
    lines = [f"{age},{city},{ill},note".encode() for age, city, ill in records()]
    path.write_bytes(b"\n".join([b"age,city,ill,note", *first, *lines, *more, b""]))


def test_fit_refuses_to_overwrite_a_model(tmp_path):
    write_csv(tmp_path / "t.csv")
    budget = Budget.open(tmp_path / "b.db", dataset="ward", epsilon=50)
    ended = []
    for _ in range(2):
        ended.append(fit_file(tmp_path, tmp_path / "t.csv", "--budget", f"{tmp_path}/b.db::ward"))
        ended.append((tmp_path / "m.dpf").read_bytes())
    assert (ended[0][0], ended[2][0]) == (0, 1)
    assert "m.dpf" in ended[2][2]
    assert (ended[3], budget.spent) == (ended[1], 20)


LONG = b"x" * (3 << 20)
CSV = {
    "plain": {},
    "not UTF-8": {"more": [b"1,\xff\xfe,yes,note"]},
    "Latin": {"more": [b"1,Osl\xf8,yes,note"]},
    "a surrogate": {"more": [b"1,\xed\xa0\x80,yes,note"]},
    "long and first": {"first": [b"1," + LONG + b",no,note"]},
    "long and last": {"more": [b"1," + LONG + b",no,note"]},
    "long, first and not asked for": {"first": [b"1,Oslo,no," + LONG]},
    "long, last and not asked for": {"more": [b"1,Oslo,no," + LONG]},
}


def write_parquet(folder, ages=(3.0,), city=b"Lima", ill=b"no"):
    """A folder of whole numbers, and of floats and texts of any bytes."""
    folder.mkdir()
    texts = {"city": [*[b"Oslo", b"Rome"] * 50, city], "ill": [*[b"no", b"yes"] * 50, ill]}
    columns = {name: pa.array(values, pa.binary()).view(pa.string()) for name, values in texts.items()}
    pq.write_table(pa.table({"age": pa.array(range(101), pa.int64()), **columns}).slice(0, 100), folder / "a.parquet")
    pq.write_table(pa.table({"age": [*map(float, range(100)), *ages], **columns}), folder / "b.parquet")


PARQUET = {"plain": {}, "no city": {"city": b"\xffLima"}, "no label": {"ill": b"\xffno"}}
PARQUET |= {f"{age}": {"ages": [age]} for age in (3.5, float("nan"), float("inf"), 1e300)}


@pytest.mark.parametrize(("write", "cases"), [(write_csv, CSV), (write_parquet, PARQUET)], ids=["CSV", "Parquet"])
def test_a_command_fits_whatever_stands_in_a_file(tmp_path, write, cases):
    for place, (name, given) in enumerate(cases.items()):
        path = tmp_path / f"{place}{'.csv' if cases is CSV else ''}"
        write(path, **given)
        code, _, words = fit_file(tmp_path, path)
        (tmp_path / "m.dpf").unlink()
        assert (code, words) == (0, "[]"), name


# --- what is said -----------------------------------------------------------------------------------------------------


def own_recipe():
    return Recipe(
        name="mine", title="Random trees", paper="none", sample=EveryRecord(), propose=Menu(random=True),
        criterion=GiniCount(), allocate=LeavesOnly(), leaf=NoisyCounts(), vote=MeanOfShares(), n_trees=2, depth=2,
    )  # fmt: skip


def test_an_own_recipe_is_said_to_be_the_persons_own_everywhere(tmp_path):
    own, known = fit_classes(records(), recipe=own_recipe()), fit_classes(records(), recipe="jagannathan-2009")
    for model, is_own in ((own, True), (known, False)):
        model.save_report(tmp_path / "r.html")
        page = re.sub(r"<[^>]*>|\s+", " ", (tmp_path / "r.html").read_text("utf-8"))
        twin = json.loads((tmp_path / "r.json").read_text("utf-8"))
        said = [str(model.privacy_), json.dumps(model.privacy_.to_dict()), page, json.dumps(twin), model.to_json()]
        assert [bool(re.search(r"own recipe", text, re.IGNORECASE)) for text in said] == [is_own] * len(said)


NIGHT = pytest.mark.night
MANY = [(300, 0.0), (300, 1e-6), *(pytest.param(*case, marks=NIGHT) for case in [(1_000, 0), (10_000, 0), (1_000, 1e-6)])]


@pytest.mark.parametrize(("n_categories", "delta"), MANY)
def test_a_column_of_pure_noise_with_many_categories_gets_little_importance(n_categories, delta):
    rng = np.random.default_rng(0)
    x, c = rng.random(4000), rng.integers(0, n_categories, 4000)
    schema = Schema({"x": Numeric(0, 1), "c": Categorical(range(n_categories))}, Classes([0, 1]))
    X, y = np.array([x, c], dtype=object).T, (x > 0.5).astype(int)
    shares = [
        DPForestClassifier(schema, delta=delta, random_state=seed).fit(X, y).feature_importances_[1] for seed in range(5)
    ]
    assert np.mean(shares) < 0.05
    assert np.max(shares) < 0.2


NOISY = ("share", "size", "lead", "mean", "rows", "count", "support")


def without_band(content, path=""):
    """Places of noisy figures beside which there is no band."""
    if isinstance(content, list):
        for place, part in enumerate(content):
            yield from without_band(part, f"{path}[{place}]")
    elif isinstance(content, dict):
        ends = [value for name, value in content.items() if "band" in name or name in ("low", "high")]
        bands = [value for value in ends if isinstance(value, int | float)]
        for name, value in content.items():
            if name == "bins":  # how many leaves have how much noise
                continue
            is_figure = name in NOISY and isinstance(value, int | float) and not isinstance(value, bool)
            if is_figure and not bands:
                yield f"{path}.{name}"
            yield from without_band(value, f"{path}.{name}")


@pytest.mark.parametrize("recipe", ["auto", "consul-2020", "jagannathan-2009"])
def test_every_noisy_figure_of_the_report_has_a_band(recipe, tmp_path):
    fit_classes(records(400), recipe=recipe).save_report(tmp_path / "r.html")
    forest = json.loads((tmp_path / "r.json").read_text("utf-8"))["forest"]
    assert list(without_band(forest)) == []


def test_the_number_of_rows_that_was_paid_for_is_shown_with_its_band(tmp_path):
    model = fit_classes(records(400), epsilon=5.0)
    assert "number of rows" in [entry["label"] for entry in model.ledger_.entries()]
    model.save_report(tmp_path / "r.html")
    forest = json.dumps(json.loads((tmp_path / "r.json").read_text("utf-8"))["forest"])
    # Noise of epsilon 0.1: beyond 200 with a chance of exp(-20).
    figures = [
        float(value) for value in re.findall(r'"[a-z_]*(?:rows|records)[a-z_]*": (?:\{"[a-z]+": )?(\d+(?:\.\d+)?)', forest)
    ]
    assert any(200 < value < 600 for value in figures)
