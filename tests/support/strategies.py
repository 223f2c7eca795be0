"""Small random schemas, tables and forests for hypothesis, and a small recipe and facts to change."""

from types import SimpleNamespace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from tests.support import naive

from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import GiniCount
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.proposals import Menu, OneAgainstRest, OneChildPerValue, RandomSubsets, Thresholds
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import EveryRecord
from dpforest.parts.shape import Facts
from dpforest.parts.voting import MeanOfShares
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

# Few examples; kernels may be compiled during the first, so no deadline.
FIXED = settings(deadline=None, max_examples=40, database=None)

N_ROWS = st.sampled_from([0, 1, 1, 2, 5, 9])
SEEDS = st.integers(0, 2**32 - 1)
BOUNDS = st.sampled_from([(0, 1), (0, 10), (-4, 4), (-7.5, 2.25), (3, 100), (-9, -2), (0.5, 3.2)])
WORDS = ("a", "b", "c", "d", "e")


@st.composite
def numerics(draw):
    lower, upper = draw(BOUNDS)
    return Numeric(lower, upper, integer=draw(st.booleans()))


@st.composite
def categoricals(draw):
    listed = draw(st.sampled_from([WORDS, (0, 1, 2, 3), (True, False)]))
    return Categorical(listed[: draw(st.integers(1, len(listed)))])


@st.composite
def _classes(draw):
    return Classes(WORDS[: draw(st.integers(1, 4))], other=draw(st.sampled_from([None, WORDS[0]])))


features = st.one_of(numerics(), categoricals())
classes = _classes()
bounded = st.builds(lambda bounds: Bounded(*bounds), BOUNDS)
targets = st.one_of(classes, bounded)
# Grids with few codes: those with scales have hundreds.
grids = st.builds(Grid, bins=st.integers(1, 6))


@st.composite
def schemas(draw, target=targets):
    parts = draw(st.lists(features, min_size=1, max_size=4))
    return Schema({f"f{index}": part for index, part in enumerate(parts)}, draw(target))


@st.composite
def domains(draw):
    return Domain.of(draw(schemas()), draw(grids))


def values_of(feature, cuts):
    """Values inside and outside the bounds, on the cuts and beside them, listed and not, and missing."""
    if isinstance(feature, Categorical):
        return st.sampled_from([*feature.categories, "unlisted", -1, None, float("nan")])
    width = feature.upper - feature.lower
    edges = [feature.lower, feature.upper, *cuts, *(np.nextafter(cut, -np.inf) for cut in cuts)]
    near = st.floats(feature.lower - width, feature.upper + width)
    return st.one_of(st.sampled_from([*map(float, edges), np.inf, -np.inf, np.nan]), near)


def target_values_of(target):
    if isinstance(target, Classes):
        return st.sampled_from([*target.labels, "unlisted", None])
    width = target.upper - target.lower
    return st.one_of(st.floats(target.lower - width, target.upper + width), st.just(np.nan))


def _column(values, feature):
    return np.array(values, dtype=object if isinstance(feature, Categorical) else float)


@st.composite
def tables(draw):
    """A schema, its domain, columns and target values."""
    schema, n_rows = draw(schemas()), draw(N_ROWS)
    domain = Domain.of(schema, draw(grids))
    columns = [
        _column(draw(st.lists(values_of(part, cuts), min_size=n_rows, max_size=n_rows)), part)
        for part, cuts in zip(domain.features, domain.cuts, strict=True)
    ]
    y = draw(st.lists(target_values_of(schema.target), min_size=n_rows, max_size=n_rows))
    return SimpleNamespace(schema=schema, domain=domain, columns=columns, y=y)


def _random(draw):
    return np.random.default_rng(draw(SEEDS))


def random_codes(domain, n_rows, rng):
    """Codes ``(n_features, n_rows)``, every code of a feature as likely as any other."""
    return rng.integers(0, domain.n_codes[:, None], size=(domain.n_features, n_rows)).astype(domain.dtype)


KINDS = (Thresholds(), OneAgainstRest(), OneChildPerValue(), RandomSubsets(2))
menus = st.builds(lambda kinds: Menu((KINDS[2], *kinds)), st.lists(st.sampled_from(KINDS), max_size=3, unique=True))


@st.composite
def reaches(draw, domain, n_nodes):
    """Codes that each node can hold; at least one of each feature."""
    rng = _random(draw)
    reach = rng.random((n_nodes, domain.total_codes)) < draw(st.sampled_from([0.2, 0.6, 1.0]))
    for offset, n_codes in zip(domain.offsets, domain.n_codes, strict=False):
        reach[np.arange(n_nodes), offset + rng.integers(0, n_codes, size=n_nodes)] = True
    return reach


@st.composite
def nested_trees(draw, domain, n_values, depth=3):
    """A tree as ``naive.plant`` takes it: every code of a split goes to one of its children, each child gets some."""
    return _nested(_random(draw), domain, n_values, depth)


def _nested(rng, domain, n_values, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.integers(-3, 20, size=n_values).tolist()
    feature = int(rng.integers(domain.n_features))
    n_codes = int(domain.n_codes[feature])
    n_children = int(rng.integers(2, min(n_codes, 4) + 1))
    route = rng.permutation([*range(n_children), *rng.integers(0, n_children, size=n_codes - n_children)])
    return feature, route.tolist(), [_nested(rng, domain, n_values, depth - 1) for _ in range(n_children)]


@st.composite
def forests(draw, target=targets, depth=3):
    """One to three hand-made trees whose leaves were released; routes may pass codes that cannot come."""
    schema = draw(schemas(target))
    domain = Domain.of(schema, Grid(draw(st.integers(1, 4))))
    trees = draw(st.lists(nested_trees(domain, schema.target.n_values, depth), min_size=1, max_size=3))
    return naive.plant(domain, schema.target, *trees, variance=draw(st.sampled_from([0.0, 1.0, 30.0])))


def put_at(counter, nodes):
    """Puts each record at a node."""
    counter._start(np.asarray(nodes, dtype=np.int32).reshape(1, -1), np.empty((0, 0), dtype=np.uint8))
    return counter


def scored_counter(target, target_codes, scores, nodes=None, codes=None, domain=None):
    """Records whose scores so far are ``scores`` ``(n_records, n_scores)``: as if one released tree had a leaf for each."""
    n_records = len(target_codes)
    if domain is None:
        domain = Domain.of(Schema({"x": Numeric(0, 1)}, target), Grid(2))
        codes = np.zeros((1, n_records), dtype=domain.dtype)
    counter = MemoryCounter(codes, np.asarray(target_codes, dtype=np.int64), domain, target)
    put_at(counter, np.arange(n_records))
    counter.start_scores()
    n_scores = target.n_values if isinstance(target, Classes) else 1
    counter.add_scores(np.asarray(scores, dtype=np.int32).reshape(n_records, n_scores))
    return put_at(counter, np.zeros(n_records) if nodes is None else nodes)


def recipe_of(**parts):
    """A small recipe with some parts exchanged."""
    base = {
        "name": "small",
        "title": "small",
        "paper": "none",
        "sample": EveryRecord(),
        "propose": Menu(),
        "criterion": GiniCount(),
        "allocate": Uniform(),
        "leaf": NoisyCounts(),
        "vote": MeanOfShares(),
        "grid": Grid(6),
        "depth": 2,
        "tasks": ("classification", "regression"),
    }
    return Recipe(**(base | parts))


def facts_of(**given):
    """Public facts about a table of some size, some of them exchanged."""
    defaults = {
        "n_rows": 1000.0, "epsilon": 1.0, "delta": 0.0, "n_features": 8, "n_numeric": 4, "mean_children": 5.0,
        "n_classes": 2,
    }  # fmt: skip
    return Facts(**defaults | given)


MIXED = {
    "x": Numeric(0, 1),
    "k": Numeric(0, 9, integer=True),
    "c": Categorical(["a", "b", "c"]),
    "d": Categorical([0, 1]),
}
TWO, THREE, MEAN = (Schema(MIXED, target) for target in (Classes([0, 1]), Classes([0, 1, 2]), Bounded(0, 1)))


def mixed_table(n_rows, seed, n_classes=2):
    """Rows for the features of ``MIXED``, with a label that depends on them, and a target in [0, 1]."""
    rng = np.random.default_rng(seed)
    x, k = rng.random(n_rows), rng.integers(0, 10, n_rows).astype(float)
    c, d = rng.choice(["a", "b", "c"], n_rows), rng.integers(0, 2, n_rows)
    signal = (x > 0.5).astype(int) + (c == "a") + (rng.random(n_rows) < 0.1)
    X = np.array([x, k, c, d], dtype=object).T.reshape(n_rows, 4)
    return X, signal % n_classes, signal / 3
