"""Models that many tests look at, each fitted once a session, with rows to score. Nobody may change them."""

from functools import cache

import numpy as np
import pandas as pd

from dpforest import (
    Bounded,
    Categorical,
    Classes,
    Date,
    DPForestClassifier,
    DPForestRegressor,
    Numeric,
    Schema,
    list_recipes,
)

RECIPES = [recipe["name"] for recipe in list_recipes() if "classification" in recipe["tasks"]]
SCRIPT = "<script>window.broken = 1</script>"
# Names and texts that are made to break things, wherever they are shown or written.
HOSTILE = [
    SCRIPT,
    "</script><img src=x onerror='window.broken=2'>",
    "\"quoted\" 'twice' {{ 7 * 7 }} {% raw %} $x^2$ \\frac{$",
    "line\nbreak\ttab\0nul",
    "emoji 👩‍👩‍👧 🎲",
    "right \u202eot tfel\u202c שלום",
    "'; DROP TABLE x; --",
    "long " + "ü<&" * 3332,
    "half \ud800 of a pair",
    "\u2028line\u2029ends",
]
# Turns of the calendar, and dates beyond the bounds.
TURNS = (
    "0001-01-01T00:00:00", "1582-10-10", "1899-12-31T23:59:59.9", "1969-12-31T23:59:59.999999", "1970-01-01",
    "2000-02-29T12:00", "2000-03-01", "2023-12-31T23:59:59.5", "2024-02-29T00:00", "2024-12-31T05:59:59", "2100-02-28",
    "9999-12-31T23:59:59",
)  # fmt: skip
TOWNS = ["Oslo", "it's", "東京", "17", "", "Köln"]


def drawn(rng, values, size):
    """A column of values drawn at random, each kept as it is."""
    return pd.Series([values[index] for index in rng.integers(0, len(values), size)], dtype=object)


@cache
def fitted(recipe="auto", target=None, n_trees=None):
    """A model of a small table, and the rows to score: with missing, unlisted, infinite values and such at bounds."""
    rng = np.random.default_rng(3)
    target = target or Classes(["no", "yes"], name="answer")
    features = {"age": Numeric(0, 90, integer=True), "pay": Numeric(-10, 1000), "town": Categorical(["a", "b", "it's"])}
    schema = Schema(features, target, n_rows=400)
    table = pd.DataFrame(
        {
            "age": rng.integers(0, 91, 400).astype(float),
            "pay": rng.normal(300, 400, 400),
            "town": drawn(rng, ["a", "b", "it's", "elsewhere", None], 400),
        }
    )
    high = (table["age"] > 40) ^ (table["town"] == "b")
    y = np.where(high, 10.0, 1.0) if isinstance(target, Bounded) else np.where(high, "yes", "no")
    kind = DPForestRegressor if isinstance(target, Bounded) else DPForestClassifier
    params = {"max_depth": 5} if recipe == "bojarski-2015" else {}
    model = kind(schema, epsilon=4, recipe=recipe, n_trees=n_trees, random_state=3, **params).fit(table, y)
    table.loc[:6, "pay"] = [np.nan, np.inf, -np.inf, -10, 1000, 1e300, 0]
    table.loc[5:7, "age"] = [np.nan, -5, 200]
    return model, table[:150]


@cache
def with_buckets():
    """A model of text, whole numbers and truth values in buckets, and rows with values that it never saw."""
    rng = np.random.default_rng(8)
    features = {"age": Numeric(0, 9), "town": Categorical(), "post code": Categorical(buckets=32), "member": Categorical()}
    towns = rng.choice(TOWNS, 600)
    columns = {"age": rng.integers(0, 10, 600), "town": pd.Series(towns, dtype="str")}
    columns |= {"post code": rng.integers(-40, 40, 600), "member": rng.random(600) < 0.5}
    table = pd.DataFrame(columns)
    y = np.where((towns == "Oslo") ^ (table["post code"] > 30), "yes", "no")
    settings = {"epsilon": 20, "recipe": "friedman-schuster-2010", "n_trees": 4, "max_depth": 4}
    model = DPForestClassifier(Schema(features, Classes(["no", "yes"])), **settings).fit(table, y)
    rows = table[:60].copy()
    rows["town"] = pd.Series([*TOWNS, None, "elsewhere", "x" * 500, "😀"] * 6, dtype="str")
    rows["post code"] = pd.array([17, 0, -(2**63), 2**63 - 1, None, 5] * 10, dtype="Int64")
    rows["member"] = pd.array([True, False, None] * 20, dtype="boolean")
    return model, rows


@cache
def with_dates():
    """A model that asks for day, weekday, month and hour, and rows to score: ordinary ones, turns and missing ones."""
    rng = np.random.default_rng(0)
    moments = rng.integers(0, 1_735_689_600, 3000).astype("M8[s]").astype("M8[us]")
    days = moments.astype("M8[D]")
    weekend = (days.astype(int) + 3) % 7 >= 5
    night = moments.astype("M8[h]").astype(int) % 24 < 6
    summer = np.isin(days.astype("M8[M]").astype(int) % 12, [5, 6, 7])
    late = days > np.datetime64("2010-01-01")
    table = pd.DataFrame({"seen": moments, "x": rng.random(3000), "born": days.astype("M8[s]")})
    features = {"seen": Date("1970-01-01", "2024-12-31", time=True), "x": Numeric(0, 1), "born": Date()}
    schema = Schema(features, Classes(["no", "yes"], name="ill"), n_rows=3000)
    y = np.where(np.stack([weekend, night, summer, late]).sum(axis=0) >= 2, "yes", "no")
    settings = {
        "epsilon": 50,
        "recipe": "consul-2020",
        "recipe_params": {"k": 6},
        "max_depth": 6,
        "n_trees": 4,
        "random_state": 0,
    }
    model = DPForestClassifier(schema, **settings).fit(table, y)
    odd = pd.DataFrame({"seen": np.array([*TURNS, "NaT"], "M8[us]"), "x": 0.5, "born": np.array([*TURNS, "NaT"], "M8[s]")})
    return model, pd.concat([table[:100], odd], ignore_index=True)


@cache
def with_learnt_lists():
    """A model and rows to score: values that are named and that are not, missing ones, and whole numbers."""
    rng = np.random.default_rng(2)
    town = rng.choice(["Oslo", "it's", 'a"b', "東京"], 4000).astype(object)
    town[::7] = [f"small {index}" for index in range(len(town[::7]))]
    town[::40] = None
    table = pd.DataFrame({"town": town, "size": rng.integers(1, 4, 4000), "x": rng.random(4000)})
    y = np.where(np.isin(town, ["Oslo", "東京"]) ^ (table["size"] == 2), "yes", "no")
    features = {"town": Categorical(learn=True), "size": Categorical(learn=True), "x": Numeric(0, 1)}
    model = DPForestClassifier(Schema(features, Classes(["no", "yes"])), epsilon=4.0, delta=1e-5, n_trees=6).fit(table, y)
    assert sorted(map(len, model.forest_.domain.lists.values())) == [3, 4]
    return model, table[:120].reset_index(drop=True)


@cache
def with_mixed_categories():
    """A model of categories as text, truth values, numbers and all together, and its rows."""
    mixed = [1, "1", 2.5, ("a", "b"), "x"]
    lists = {"text": ["a", "b"], "flag": [True, False], "grade": [1, 2.5, -3], "mixed": mixed}
    rows = {"text": ["a", "b", None, "c"], "flag": [True, False, None, True], "grade": [1, 2.5, np.nan, 7, -3]}
    rows["mixed"] = [*mixed, None, "z", "y", 1, "1"]
    table = pd.DataFrame({name: pd.Series((values * 5)[:20], dtype=object) for name, values in rows.items()})
    table["grade"] = table["grade"].astype(float)
    schema = Schema({name: Categorical(listed) for name, listed in lists.items()}, Classes([0, 1]))
    return DPForestClassifier(schema, epsilon=50, recipe="jagannathan-2009").fit(table, [0, 1] * 10), table


# Names that databases and runtimes have a use of their own for, or no room.
NAMES = {
    "quote\"s 'and' `ticks`": Numeric(0, 1),
    "<script>alert(1)</script>": Categorical(["</script>", "a'; DROP TABLE people; --"]),
    "line\nbreak\ttab": Numeric(-1, 1),
    "\N{GRINNING FACE}": Categorical(["\N{GRINNING FACE}", "\u202eright to left", "x" * 10_000, "", 'q"']),
    "": Numeric(0, 5, integer=True),
    **dict.fromkeys(["prediction", "label", "probabilities", "Probability_A", "_0", "f0", "n" * 10_000], Numeric(0, 1)),
}


@cache
def with_names():
    """A model whose names and categories are made to break exports, and a table."""
    rng = np.random.default_rng(5)
    schema = Schema(NAMES, Classes(["A", "a", "'; --", "<b>", "\N{GRINNING FACE}\n", "y" * 10_000]))
    columns = {
        name: drawn(rng, [*part.categories, None, "?"], 80) if isinstance(part, Categorical) else rng.random(80)
        for name, part in NAMES.items()
    }
    table = pd.DataFrame(columns)
    model = DPForestClassifier(schema, epsilon=5, recipe="jagannathan-2009", n_trees=4)
    return model.fit(table, rng.choice(np.array(schema.target.labels, dtype=object), 80)), table


# Of the report


def table(n_rows=400, n_features=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.integers(0, 8, size=(n_rows, n_features)).astype(float)
    return X, (X[:, 0] + X[:, -1] > 7).astype(int)


def small_schema():
    features = {f"x{index}": Numeric(0, 7, integer=True) for index in range(3)}
    return Schema(features, Classes([0, 1], name="outcome"), one_row_per_person=True)


@cache
def small_model(recipe="auto", variant="private", **changed):
    X, y = table()
    return DPForestClassifier(small_schema(), recipe=recipe, variant=variant, **{"epsilon": 1.0, **changed}).fit(X, y)


@cache
def mean_model(recipe="auto", **changed):
    X, _ = table()
    stated = {"vouched_by": "The registrar", "one_row_per_person": True}
    schema = Schema({"x0": Numeric(0, 7), "x1": Numeric(0, 7)}, Bounded(0, 7, name="amount"), **stated)
    return DPForestRegressor(schema, recipe=recipe, **{"epsilon": 2.0, **changed}).fit(X[:, :2], X[:, 2])


@cache
def hostile_model(recipe="jagannathan-2009", **changed):
    generator = np.random.default_rng(1)
    features = {HOSTILE[0]: Categorical(HOSTILE), HOSTILE[1]: Numeric(0, 1), HOSTILE[5]: Categorical([1, False, ("a", 1)])}
    features |= {HOSTILE[7]: Categorical([None, "other", "missing"])}
    labels, stated = [*HOSTILE, ("tuple", 1), 3.5], {"vouched_by": SCRIPT, "one_row_per_person": "<b>\u202e"}
    X = np.empty((300, 4), dtype=object)
    X[:, 0], X[:, 1] = generator.choice(HOSTILE, 300), generator.random(300)
    X[:, 2], X[:, 3] = 1, "other"
    y = np.empty(300, dtype=object)
    y[:] = [labels[index] for index in generator.integers(0, 12, 300)]
    schema = Schema(features, Classes(labels, name=HOSTILE[3]), **stated)
    return DPForestClassifier(schema, epsilon=5.0, recipe=recipe, **changed).fit(X, y)


@cache
def large_model():
    """500 trees, 300 columns and 30 classes with names of 10,000 characters."""
    generator = np.random.default_rng(2)
    features = {f"{index} " + "<&\"'>" * 2000: Numeric(0, 7, integer=True) for index in range(300)}
    labels = [f"{index} " + "<é🎲>" * 2500 for index in range(30)]
    X, y = generator.integers(0, 8, size=(200, 300)).astype(float), generator.choice(np.array(labels, dtype=object), 200)
    settings = {"epsilon": 1.0, "recipe": "consul-2020-ert", "n_trees": 500, "max_depth": 3}
    return DPForestClassifier(Schema(features, Classes(labels)), **settings).fit(X, y)


@cache
def wide_model():
    """A column with 65,000 categories, split into random halves."""
    generator = np.random.default_rng(3)
    places = np.array([f"<index> number {code}" for code in range(65_000)], dtype=object)
    schema = Schema({"place": Categorical(places)}, Classes([0, 1]))
    model = DPForestClassifier(schema, epsilon=1.0, recipe="consul-2020-ert", n_trees=2, max_depth=3)
    return model.fit(generator.choice(places, (100, 1)), generator.integers(0, 2, 100))
