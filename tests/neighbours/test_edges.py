"""What somebody expects at the edges who knows the documentation alone: one odd record decides nothing, nothing is in vain.

Written against the documentation, not against the code. Where noise matters fits are seeded.
"""

import json
import re
import subprocess
import sys
from collections import deque

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.neighbours.one_record import outcome
from tests.support.columns import objects

from dpforest import Bounded, Budget, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import BudgetError
from dpforest.parts.allocation import LeavesOnly
from dpforest.parts.criteria import GiniCount
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.proposals import Menu
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import EveryRecord
from dpforest.parts.voting import MeanOfShares

pytestmark = pytest.mark.slow

N_ROWS = 80
INF, NAN = float("inf"), float("nan")
FEATURES = {"age": Numeric(0, 100), "city": Categorical(["Oslo", "Rome"])}
CLASSES = Schema(FEATURES, Classes(["no", "yes"], name="ill"), one_row_per_person=True)
NUMBERS = Schema(FEATURES, Bounded(0, 100, name="cost"))


def records(n_rows=N_ROWS):
    """Records of age, city, illness and cost; who is over 50 is ill."""
    ages = np.random.default_rng(0).integers(0, 100, n_rows)
    return [(float(age), "Oslo" if age % 2 else "Rome", "yes" if age > 50 else "no", age / 2) for age in ages]


def rows_of(table):
    return [list(record[:2]) for record in table]


def as_frame(table):
    ages = pd.Series([record[0] for record in table], dtype=float)
    return pd.DataFrame({"age": ages, "city": pd.Series([record[1] for record in table], dtype=object)})


def as_polars(table):
    ages = pl.Series([record[0] for record in table], dtype=pl.Float64)
    return pl.DataFrame({"age": ages, "city": pl.Series([record[1] for record in table], dtype=pl.String)})


def as_array(table):
    columns = [objects([record[place] for record in table]) for place in (0, 1)]
    return np.stack(columns, axis=1).reshape(len(table), 2)


TABLES = {"lists": rows_of, "array": as_array, "pandas": as_frame, "polars": as_polars}
CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "deque": deque,
    "array of objects": objects,
    "pandas": lambda values: pd.Series(values, dtype=object),
    "polars objects": lambda values: pl.Series(values, dtype=pl.Object),
}


def classifier(**settings):
    return DPForestClassifier(CLASSES, **{"epsilon": 1.0, "max_depth": 2} | settings)


def fit_classes(table, make=as_array, **settings):
    return classifier(**settings).fit(make(table), objects([record[2] for record in table]))


def fit_numbers(table, make=as_array):
    model = DPForestRegressor(NUMBERS, epsilon=1.0, max_depth=2)
    return model.fit(make(table), objects([record[3] for record in table]))


# --- no rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("fit", [fit_classes, fit_numbers])
def test_an_empty_table_fits_as_one_row_does(fit, make):
    empty, one = (outcome(lambda n=n: fit(records()[:n], make)) for n in (0, 1))
    assert empty.error is None
    assert empty == one


def test_empty_lists_fit_as_a_list_of_one_row_does():
    empty, one = outcome(lambda: classifier().fit([], [])), outcome(lambda: classifier().fit([[1.0, "Oslo"]], ["no"]))
    assert empty.error is None
    assert empty == one


# --- containers of the target -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CONTAINERS)
def test_labels_are_the_same_in_every_container(kind):
    table = records()
    labels = [record[2] for record in table]
    in_list, here = (
        classifier(random_state=0).fit(as_array(table), make(labels)).forest_.rules() for make in (list, CONTAINERS[kind])
    )
    assert here == in_list


@pytest.mark.parametrize("odd", [5, None, 1.5, NAN, ("yes",), ["yes"], b"yes", True], ids=repr)
@pytest.mark.parametrize("kind", CONTAINERS)
def test_one_odd_label_changes_neither_the_outcome_nor_what_others_are(kind, odd):
    table, make = records(), CONTAINERS[kind]
    labels = [record[2] for record in table]
    ends = [outcome(lambda y=y: classifier().fit(as_array(table), make(y))) for y in (labels, [*labels[:-1], odd])]
    assert ends[0] == ends[1]
    if ends[0].error is None:
        exact = classifier(epsilon=INF, random_state=0).fit(as_array(table), make([*labels[:-1], odd]))
        assert (exact.predict(as_array(table)) == labels).mean() > 0.9


@pytest.mark.parametrize("odd", ["odd", None, 1.5, NAN, (7,)], ids=repr)
@pytest.mark.parametrize("kind", CONTAINERS)
def test_one_odd_id_of_a_person_changes_neither_the_outcome_nor_who_others_are(kind, odd):
    table, make = records(), CONTAINERS[kind]
    X, y = as_array(table), objects([record[2] for record in table])

    def fit(ids, **settings):
        return classifier(max_rows_per_person=2, **settings).fit(X, y, groups=make(ids))

    ids = [*range(N_ROWS)]
    ends = [outcome(lambda g=g: fit(g)) for g in (ids, [*ids[:-1], odd])]
    assert ends[0] == ends[1]
    if ends[0].error is None:
        exact = fit([*ids[:-1], odd], epsilon=INF, random_state=0)
        assert (exact.predict(X) == y).mean() > 0.9


# --- odd values -------------------------------------------------------------------------------------------------------

ODD_NUMBERS = [INF, -INF, NAN, None, 1e308, -1e308, 5e-324, -0.0, 2.0**53 + 2]
ODD_TEXTS = ["Lima", None, "", "x" * 2_000_000, " Oslo", "\x00", "\u202eolsO"]


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("fit", [fit_classes, fit_numbers])
@pytest.mark.parametrize("odd", ODD_NUMBERS, ids=repr)
def test_one_odd_number_does_not_show(make, fit, odd):
    table = records()
    ends = [outcome(lambda rows=rows: fit(rows, make)) for rows in (table, [*table, (odd, "Oslo", "yes", 10.0)])]
    assert ends[0].error is None
    assert ends[0] == ends[1]


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("odd", ODD_TEXTS, ids=lambda odd: repr(odd)[:12])
def test_one_odd_category_does_not_show(make, odd):
    table = records()
    ends = [outcome(lambda rows=rows: fit_classes(rows, make)) for rows in (table, [*table, (1.0, odd, "yes", 10.0)])]
    assert ends[0].error is None
    assert ends[0] == ends[1]


@pytest.mark.parametrize("odd", ["perhaps", "Yes", "yes ", None, NAN, "y" * 2_000_000, 1], ids=lambda odd: repr(odd)[:12])
def test_one_unknown_or_missing_label_does_not_show(odd):
    table = records()
    ends = [outcome(lambda rows=rows: fit_classes(rows)) for rows in (table, [*table, (1.0, "Oslo", odd, 10.0)])]
    assert ends[0].error is None
    assert ends[0] == ends[1]


@pytest.mark.parametrize("dtype", [float, np.float32, np.longdouble, object], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("odd", ODD_NUMBERS, ids=repr)
def test_one_odd_target_does_not_show(odd, dtype):
    table = records()
    costs = [record[3] for record in table]

    def fit(values):
        with np.errstate(over="ignore"):  # of the test's own conversion
            y = np.array([NAN if value is None and dtype is not object else value for value in values], dtype=dtype)
        return DPForestRegressor(NUMBERS, max_depth=2).fit(as_array(table), y)

    ends = [outcome(lambda values=values: fit(values)) for values in (costs, [*costs[:-1], odd])]
    assert ends[0].error is None
    assert ends[0] == ends[1]


@pytest.mark.parametrize("dtype", [np.float32, np.longdouble], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("odd", ["inf", "-inf", "nan", "1e400", "1e-400", "1e4000", "-0.0"])
def test_one_odd_number_of_another_width_does_not_show(odd, dtype):
    schema = Schema({"age": Numeric(0, 100)}, CLASSES.target)
    labels = objects([record[2] for record in records()])
    plain = np.array([[record[0]] for record in records()], dtype=dtype)
    strange = plain.copy()
    strange[-1, 0] = dtype(odd)
    ends = [outcome(lambda X=X: DPForestClassifier(schema, max_depth=2).fit(X, labels)) for X in (plain, strange)]
    assert ends[0].error is None
    assert ends[0] == ends[1]


class Stubborn:
    """A value that cannot be compared, and has the hash of one that is listed."""

    def __init__(self, listed):
        self.listed = listed

    def __eq__(self, other):
        raise RuntimeError("a secret of this record")

    def __hash__(self):
        return hash(self.listed)


@pytest.mark.parametrize("place", [0, 1, 2], ids=["number", "category", "label"])
def test_a_value_that_cannot_be_compared_does_not_show(place):
    table, odd = records(), [1.0, "Oslo", "yes", 10.0]
    odd[place] = Stubborn(odd[place])
    ends = [outcome(lambda rows=rows: fit_classes(rows)) for rows in (table, [*table, tuple(odd)])]
    assert ends[0].error is None
    assert ends[0] == ends[1]


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
        said += [str(budget.left), run("budget", "show", f"{tmp_path}/budget.db::ward").stdout if n_fits == 5 else ""]
    with pytest.raises(BudgetError) as refused:
        fit()
    assert len(budget.history()) == n_fits
    assert budget.left == 0
    assert not re.search(r"\d[eE]-1\d|\d\.\d{12}", " ".join([*said, str(refused.value)]))


# --- files and commands -----------------------------------------------------------------------------------------------


def run(*words, cwd=None):
    command = [sys.executable, "-m", "dpforest.cli", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def folder(tmp_path):
    CLASSES.to_file(tmp_path / "s.json")
    return tmp_path


def write_csv(path, table, more=b""):
    lines = [f"{age},{city},{ill},note" for age, city, ill, _ in table]
    path.write_bytes(("age,city,ill,note\n" + "\n".join(lines) + "\n").encode() + more)


def fit_file(folder, table, out="m.dpf", *options):
    """A fit on the command line, with noise in which a table of the sizes here is never lost: what is odd is not said."""
    return run("fit", table, "--schema", "s.json", "--epsilon", 20, "--out", out, *options, cwd=folder)


def test_fit_refuses_to_overwrite_a_model(folder):
    write_csv(folder / "t.csv", records())
    run("budget", "create", "b.db::ward", "--epsilon", 50, cwd=folder)
    first = fit_file(folder, "t.csv", "m.dpf", "--budget", "b.db::ward")
    assert first.returncode == 0, first.stderr
    model = (folder / "m.dpf").read_bytes()
    again = fit_file(folder, "t.csv", "m.dpf", "--budget", "b.db::ward")
    assert again.returncode == 1
    assert "m.dpf" in again.stderr
    assert (folder / "m.dpf").read_bytes() == model
    assert Budget.open(folder / "b.db", dataset="ward").spent == 20


@pytest.mark.parametrize("odd", [3.5, NAN, INF, 1e300], ids=repr)
@pytest.mark.parametrize("how", ["command", "python"])
def test_a_parquet_folder_of_whole_numbers_and_of_floats_fits_whatever_the_floats_are(folder, how, odd):
    ends = []
    for name, value in (("plain", 3.0), ("odd", odd)):
        parts = folder / name
        parts.mkdir()
        rest = {"city": ["Oslo", "Rome"] * 10, "ill": ["no", "yes"] * 10}
        pq.write_table(pa.table({"age": pa.array(range(20), pa.int64()), **rest}), parts / "a.parquet")
        pq.write_table(
            pa.table({"age": pa.array([*map(float, range(19)), value], pa.float64()), **rest}), parts / "b.parquet"
        )
        if how == "command":
            ended = fit_file(folder, name, f"{name}.dpf")
            ends.append((ended.returncode, ended.stderr))
        else:
            ends.append(outcome(lambda parts=parts: classifier().fit(str(parts))))
    assert ends[0] == ends[1]
    assert ends[0] == (0, "") if how == "command" else ends[0].error is None


@pytest.mark.parametrize("column", ["city", "note"])
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_csv_with_a_cell_of_three_mebibytes_fits(folder, column, place):
    long, table = "x" * (3 << 20), records()
    odd = f"1,{long},no,note" if column == "city" else f"1,Oslo,no,{long}"
    lines = [f"{age},{city},{ill},note" for age, city, ill, _ in table]
    lines = [odd, *lines] if place == "first" else [*lines, odd]
    (folder / "t.csv").write_text("age,city,ill,note\n" + "\n".join(lines) + "\n")
    ended = fit_file(folder, "t.csv")
    assert ended.returncode == 0, ended.stderr[:500]
    assert ended.stderr == ""


@pytest.mark.parametrize("cell", [b"\xff\xfe", b"Osl\xf8", b"\xed\xa0\x80"], ids=repr)
def test_a_csv_with_text_that_is_not_utf_8_fits(folder, cell):
    write_csv(folder / "plain.csv", records(), b"1,Lima,yes,note\n")
    write_csv(folder / "odd.csv", records(), b"1," + cell + b",yes,note\n")
    plain, odd = (fit_file(folder, f"{name}.csv", f"{name}.dpf") for name in ("plain", "odd"))
    assert plain.returncode == 0, plain.stderr
    assert (odd.returncode, odd.stderr) == (0, plain.stderr)


@pytest.mark.parametrize("column", ["city", "ill"])
@pytest.mark.parametrize("how", ["command", "file", "table"])
def test_parquet_with_text_that_is_not_utf_8_fits(folder, how, column):
    ends = []
    for name, cell in (("plain", b"Lima"), ("odd", b"\xffLima")):
        texts = {"city": [b"Oslo", b"Rome"] * 100, "ill": [b"no", b"yes"] * 100}
        texts[column][-1] = cell
        columns = {key: pa.array(values, pa.binary()).view(pa.string()) for key, values in texts.items()}
        table = pa.table({"age": pa.array(range(200), pa.float64()), **columns})
        path = folder / f"{name}.parquet"
        pq.write_table(table, path)
        if how == "command":
            ended = fit_file(folder, path.name, f"{name}.dpf")
            ends.append((ended.returncode, ended.stderr))
        elif how == "file":
            ends.append(outcome(lambda path=path: classifier().fit(str(path))))
        else:
            ends.append(outcome(lambda table=table: classifier().fit(table.select(["age", "city"]), table.column("ill"))))
    assert ends[0] == ends[1]
    assert ends[0][0] == 0 if how == "command" else ends[0].error is None


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


@pytest.mark.parametrize(("n_categories", "delta"), [(1_000, 0.0), (10_000, 0.0), (1_000, 1e-6)])
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
