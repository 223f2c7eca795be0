"""Models and tables that every export is tried on."""

from functools import lru_cache

import numpy as np
import pandas as pd

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, list_recipes
from dpforest.forest.tree import Forest
from dpforest.schema.domain import Derived, Domain

RECIPES = [recipe["name"] for recipe in list_recipes() if "classification" in recipe["tasks"]]
HOSTILE = {
    "quote\"s 'and' `ticks`": Numeric(0, 1),
    "<script>alert(1)</script>": Categorical(["</script>", "a'; DROP TABLE people; --"]),
    "line\nbreak\ttab": Numeric(-1, 1),
    "\N{GRINNING FACE}": Categorical(["\N{GRINNING FACE}", "\u202eright to left", "x" * 10_000, "", 'q"']),
    "": Numeric(0, 5, integer=True),
    "prediction": Numeric(0, 1),
    "label": Numeric(0, 1),
    "probabilities": Numeric(0, 1),
    "Probability_A": Numeric(0, 1),
    "_0": Numeric(0, 1),
    "f0": Numeric(0, 1),
    "n" * 10_000: Numeric(0, 1),
}


@lru_cache
def fitted(recipe, target=None, n_trees=None):
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
    model = kind(schema, epsilon=4, recipe=recipe, n_trees=n_trees, **params).fit(table, y)
    table.loc[:6, "pay"] = [np.nan, np.inf, -np.inf, -10, 1000, 1e300, 0]
    table.loc[5:7, "age"] = [np.nan, -5, 200]
    return model, table[:150]


def drawn(rng, values, size):
    """A column of values drawn at random, each kept as it is."""
    return pd.Series([values[index] for index in rng.integers(0, len(values), size)], dtype=object)


@lru_cache
def hostile_model():
    """A model whose names and categories are made to break things, and a table."""
    rng = np.random.default_rng(5)
    schema = Schema(HOSTILE, Classes(["A", "a", "'; --", "<b>", "\N{GRINNING FACE}\n", "y" * 10_000]))
    columns = {
        name: drawn(rng, [*part.categories, None, "?"], 80) if isinstance(part, Categorical) else rng.random(80)
        for name, part in HOSTILE.items()
    }
    table = pd.DataFrame(columns)
    model = DPForestClassifier(schema, epsilon=5, recipe="jagannathan-2009", n_trees=4)
    return model.fit(table, rng.choice(np.array(schema.target.labels, dtype=object), 80)), table


def mixed_table():
    """Categories as text, booleans, numbers and all together; and the schema."""
    mixed = [1, "1", 2.5, ("a", "b"), "x"]
    features = {
        "text": Categorical(["a", "b"]),
        "flag": Categorical([True, False]),
        "grade": Categorical([1, 2.5, -3]),
        "mixed": Categorical(mixed),
    }
    table = pd.DataFrame({"text": ["a", "b", None, "c"] * 5, "grade": [1, 2.5, np.nan, 7, -3] * 4}, dtype=object)
    table["grade"] = table["grade"].astype(float)
    for name, values in {"flag": [True, False, None, True], "mixed": [*mixed, None, "z", "y", 1, "1"]}.items():
        column = np.empty(20, dtype=object)
        for index in range(20):
            column[index] = values[index % len(values)]
        table[name] = column
    return table[["text", "flag", "grade", "mixed"]], Schema(features, Classes([0, 1]))


def chain_forest(depth):
    """One tree that goes deeper at each cut, and values that end at each of its leaves."""
    cuts = np.arange(1.0, 17.0)
    domain = Domain((Derived("x", 0, Numeric(0, 20)),), (cuts,))
    n_nodes = 2 * depth + 1
    nodes = np.arange(n_nodes)
    inner = np.isin(nodes, [0, *range(2, n_nodes - 1, 2)]) & (depth > 0)
    indices = np.cumsum(inner) - 1
    # Record is below its cut: first child, a leaf; else the second, which asks for the next cut.
    routes = np.array([[int(code > level) for code in range(len(cuts) + 2)] for level in range(depth)], dtype=np.uint16)
    shares = np.stack([nodes + 1.0, np.full(n_nodes, 3.0)], axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    forest = Forest(
        domain=domain,
        target=Classes(["no", "yes"]),
        trees=np.zeros(n_nodes, dtype=np.int64),
        parents=np.where(nodes == 0, -1, (nodes - 1) // 2 * 2),
        levels=(nodes + 1) // 2,
        first_children=np.where(inner, nodes + 1, -1),
        features=np.where(inner, 0, -1),
        splits=np.where(inner, indices, -1),
        routes=routes.reshape(depth, len(cuts) + 2),
        counts=shares * 10,
        variances=np.ones(n_nodes),
        shares=shares,
        votes=shares,
    )
    return forest, np.arange(0.5, 17.0)
