"""Models for the tests of the report: small, hostile and large."""

from functools import cache

import numpy as np

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema

SCRIPT = "<script>window.broken = 1</script>"
HOSTILE = [
    SCRIPT,
    "</script><img src=x onerror='window.broken=2'>",
    "\"quoted\" 'twice' {{ 7 * 7 }} {% raw %}",
    "line\nbreak\ttab\0nul",
    "emoji 👩‍👩‍👧 🎲",
    "right \u202eot tfel\u202c שלום",
    "'; DROP TABLE x; --",
    "long " + "ü<&" * 3332,
    "half \ud800 of a pair",
    "\u2028line\u2029ends",
]


def table(n_rows=400, n_features=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.integers(0, 8, size=(n_rows, n_features)).astype(float)
    return X, (X[:, 0] + X[:, -1] > 7).astype(int)


@cache
def small_model(recipe="auto", variant="private", **changed):
    X, y = table()
    features = {f"x{index}": Numeric(0, 7, integer=True) for index in range(3)}
    schema = Schema(features, Classes([0, 1], name="outcome"), one_row_per_person=True)
    return DPForestClassifier(schema, recipe=recipe, variant=variant, **{"epsilon": 1.0, **changed}).fit(X, y)


@cache
def mean_model(recipe="auto", **changed):
    X, _ = table()
    features, stated = (
        {"x0": Numeric(0, 7), "x1": Numeric(0, 7)},
        {"vouched_by": "The registrar", "one_row_per_person": True},
    )
    schema = Schema(features, Bounded(0, 7, name="amount"), **stated)
    return DPForestRegressor(schema, recipe=recipe, **{"epsilon": 2.0, **changed}).fit(X[:, :2], X[:, 2])


def hostile_model(recipe="jagannathan-2009", **changed):
    generator = np.random.default_rng(1)
    features = {HOSTILE[0]: Categorical(HOSTILE), HOSTILE[1]: Numeric(0, 1), HOSTILE[5]: Categorical([1, False, ("a", 1)])}
    features |= {HOSTILE[7]: Categorical([None, "other", "missing"])}
    schema = Schema(
        features, Classes([*HOSTILE, ("tuple", 1), 3.5], name=HOSTILE[3]), vouched_by=SCRIPT, one_row_per_person="<b>\u202e"
    )
    X = np.empty((300, 4), dtype=object)
    X[:, 0], X[:, 1] = generator.choice(HOSTILE, 300), generator.random(300)
    X[:, 2], X[:, 3] = 1, "other"
    y = np.empty(300, dtype=object)
    y[:] = [schema.target.labels[index] for index in generator.integers(0, 12, 300)]
    return DPForestClassifier(schema, epsilon=5.0, recipe=recipe, **changed).fit(X, y)


def large_model():
    """500 trees, 300 columns and 30 classes with names of 10,000 characters."""
    generator = np.random.default_rng(2)
    features = {f"{index} " + "<&\"'>" * 2000: Numeric(0, 7, integer=True) for index in range(300)}
    labels = [f"{index} " + "<é🎲>" * 2500 for index in range(30)]
    X, y = generator.integers(0, 8, size=(200, 300)).astype(float), generator.choice(np.array(labels, dtype=object), 200)
    schema = Schema(features, Classes(labels))
    return DPForestClassifier(schema, epsilon=1.0, recipe="consul-2020-ert", n_trees=500, max_depth=3).fit(X, y)


def wide_model():
    """A column with 65,000 categories, split into random halves."""
    generator = np.random.default_rng(3)
    indices = np.array([f"<index> number {code}" for code in range(65_000)], dtype=object)
    schema = Schema({"place": Categorical(indices)}, Classes([0, 1]))
    X = generator.choice(indices, (100, 1))
    model = DPForestClassifier(schema, epsilon=1.0, recipe="consul-2020-ert", n_trees=2, max_depth=3)
    return model.fit(X, generator.integers(0, 2, 100))
