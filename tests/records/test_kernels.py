"""Each kernel equals its slow twin, and no answer depends on threads or blocks."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.encoded import opened
from tests.support.planted import assert_same_forest
from tests.support.strategies import (
    FIXED,
    MIXED,
    SEEDS,
    WORDS,
    domains,
    menus,
    mixed_table,
    reaches,
    recipe_of,
    tables,
)

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.common import work as workers
from dpforest.common.work import COLUMNS_FOR_THREADS, THREAD_CELLS
from dpforest.growing import choosing
from dpforest.parts.criteria import UNITS, Balance, EntropyCount, GiniCount, MaxOperator, Mixture, SquaredError
from dpforest.parts.routes import children_in_blocks, children_of
from dpforest.records.columns import read_target
from dpforest.records.counter import MemoryCounter
from dpforest.records.encoding import encode
from dpforest.records.vault import Vault
from dpforest.schema import TARGET_STEPS
from dpforest.schema.domain import Domain, Grid
from dpforest.schema.grid import MISSING, N_BINS, bin_of


@FIXED
@given(tables())
def test_encoding_and_sealing_a_table_equal_their_twins(table):
    target = table.schema.target
    targets = [naive.target_code_of(value, target) for value in table.y]
    y = np.array(table.y, dtype=object if isinstance(target, Classes) else float)
    assert read_target(y, target).tolist() == targets
    codes = [
        [naive.code_of(value, part, cuts) for value in column]
        for column, part, cuts in zip(table.columns, table.domain.features, table.domain.cuts, strict=True)
    ]
    assert encode(table.columns, table.domain).tolist() == codes
    X = np.empty((len(y), len(table.columns)), dtype=object)
    for index, column in enumerate(table.columns):
        X[:, index] = column
    vault, kept = Vault.seal(X, y, table.schema), [record for record, code in enumerate(targets) if code >= 0]
    assert vault.encode(table.domain)._codes.tolist() == [[own[record] for record in kept] for own in codes]
    assert vault.count()._value.tolist() == [len(kept)]


def border_table(kind, n_codes):
    """One record for each code of a feature that has exactly ``n_codes``."""
    if kind == "numeric":
        schema, grid = Schema({"x": Numeric(0, n_codes - 1)}, Classes(["a", "b"])), Grid(n_codes - 1)
        values = np.append(np.arange(n_codes - 1) + 0.5, np.nan)
    else:
        schema, grid = Schema({"x": Categorical(range(n_codes - 2))}, Classes(["a", "b"])), Grid()
        values = np.array([*range(n_codes - 2), "unlisted", None], dtype=object)
    return Domain.of(schema, grid), values


@pytest.mark.parametrize("n_codes", [255, 256, 257])
@pytest.mark.parametrize("kind", ["numeric", "categorical"])
def test_codes_counts_routes_and_votes_survive_at_the_border_of_one_byte(kind, n_codes):
    domain, values = border_table(kind, n_codes)
    target, codes, labels = Classes(["a", "b"]), encode([values], domain), np.arange(n_codes) % 2
    assert domain.n_codes.tolist() == [n_codes]
    assert codes.itemsize == (1 if n_codes <= 256 else 2)
    assert codes.tolist() == [list(range(n_codes))]

    counter = MemoryCounter(codes, labels, domain, target)
    counter._start(np.zeros((1, n_codes), dtype=np.int32), np.empty((0, 0), dtype=np.uint8))
    counts = counter.count_codes(0, np.ones((1, 1), dtype=bool))._value
    assert counts.tolist() == [np.eye(2, dtype=int)[labels].tolist()]

    route = list(range(n_codes))
    counter.descend(0, np.array([0]), np.array([route], dtype=np.uint16), np.array([1]))
    assert counter._positions.tolist() == [list(range(1, n_codes + 1))]

    forest = naive.plant(domain, target, (0, route, [[code, 0] for code in range(n_codes)]))
    assert replace(forest, votes=forest.counts).vote(codes)[:, 0].tolist() == list(range(n_codes))


@st.composite
def proposals(draw):
    """Candidates of a menu for nodes that hold some codes."""
    domain, menu, n_nodes = draw(domains()), draw(menus), draw(st.integers(1, 3))
    reach, rng = draw(reaches(domain, n_nodes)), np.random.default_rng(draw(SEEDS))
    candidates = menu.propose(domain, menu.fixed(domain), reach, rng)
    return SimpleNamespace(domain=domain, reach=reach, candidates=candidates, rng=rng)


@FIXED
@given(proposals(), st.integers(1, 3), st.integers(1, 5))
def test_valid_routes_and_their_children_equal_their_twins_in_blocks_of_any_size(proposal, width, most):
    domain, candidates, routes = proposal.domain, proposal.candidates, proposal.candidates.routes
    counts = proposal.rng.integers(0, 9, size=(len(proposal.reach), domain.total_codes, width))
    expected = []
    for node, indices in enumerate(candidates.indices):
        for column, route in enumerate(indices):
            own = slice(*domain.offsets[routes.features[route] :][:2])
            children, held = routes.children(np.array([route]))[0], np.flatnonzero(proposal.reach[node, own])
            is_valid = naive.divides(children, [code for code in held if code < routes.ends[route]])
            assert candidates.valid[node, column] == is_valid
            if is_valid:
                expected.append(naive.children_of(counts[node, own], children, routes.most_children))
    assert children_of(counts, candidates, domain.offsets).tolist() == expected
    valid, ends, found = candidates.valid.reshape(-1), [0], []
    for first, end, children in children_in_blocks(counts, candidates, domain.offsets, most):
        assert first == ends[-1]
        assert len(children) == np.count_nonzero(valid[first:end]) <= most
        ends.append(end)
        found += children.tolist()
    assert ends[-1] == valid.size
    assert found == expected


@FIXED
@given(st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=4))
def test_scores_of_classes_equal_their_exact_twins(children):
    table, target = np.array(children), Classes(WORDS[:3])
    gini = sum(math.floor(64 * term) for term in naive.gini_terms(children))
    assert GiniCount().score(table, target) == gini
    assert MaxOperator().score(table, target) == naive.max_operator(children)
    assert Balance().score(table, target) == naive.balance([sum(child) for child in children])
    mixture = Mixture(((GiniCount(), 3), (MaxOperator(), 5)))
    assert mixture.score(table, target) == 3 * gini + 5 * 128 * naive.max_operator(children)


@FIXED
@given(st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=1, max_size=4))
def test_entropy_of_small_counts_equals_its_twin(children):
    steps = naive.entropy_steps(128, UNITS)
    expected = sum(sum(sum(steps[:count]) for count in child) - sum(steps[: sum(child)]) for child in children)
    score = EntropyCount().score(np.array(children), Classes(WORDS[:3]))
    assert score == expected
    # Each of the n steps of g is rounded down by less than one unit.
    assert abs(score - UNITS * naive.entropy(children)) <= np.sum(children)


# A value and how many records have it: many enough that no part of the formula is lost in the rounding.
groups = st.lists(st.tuples(st.integers(0, TARGET_STEPS), st.integers(1, 2**20)), max_size=4)


@FIXED
@given(st.lists(groups, min_size=1, max_size=4))
@example([[(3492, 1), (41, 1), (0, 3)]])  # a fraction of a step below a whole unit
def test_squared_error_equals_its_exact_twin(children):
    table = [[sum(n * z**power for z, n in child) for power in range(3)] for child in children]
    expected = -sum(64 * math.floor(error) // TARGET_STEPS**2 for error in naive.squared_errors(table))
    assert SquaredError().score(np.array(table), Bounded(0, 1)) == expected


def fitted(n_rows=80):
    X, y, _ = mixed_table(n_rows, seed=5)
    recipe = recipe_of(n_trees=3, depth=3)
    return DPForestClassifier(Schema(MIXED, Classes([0, 1])), epsilon=3.0, recipe=recipe, random_state=11).fit(X, y)


def test_a_forest_does_not_depend_on_the_size_of_blocks(monkeypatch):
    whole, n_queries = fitted().forest_, []
    count_codes = MemoryCounter.count_codes
    monkeypatch.setattr(choosing, "BLOCK_CELLS", 1)
    monkeypatch.setattr(MemoryCounter, "count_codes", lambda *query: n_queries.append(len(query[2])) or count_codes(*query))
    assert_same_forest(whole, fitted().forest_)
    assert n_queries == [1] * int((~whole.is_leaf).sum())


def test_codes_lie_feature_by_feature_in_memory_whether_or_not_a_record_was_left_out():
    schema = Schema({"x": Numeric(0, 1), "k": Numeric(0, 1)}, Classes(["a", "b"]))
    X = np.random.default_rng(0).random((6, 2))
    for y in (["a", "b"] * 3, ["a", "b", "b", "a", "a", "unlisted"]):
        counter = Vault.seal(X, np.array(y, dtype=object), schema).encode(Domain.of(schema, Grid(4)))
        assert counter._codes.flags.c_contiguous


# Threads that count some columns of all records, where there are many.
N_COLUMNS = 3 * COLUMNS_FOR_THREADS + 5
N_ROWS = THREAD_CELLS // COLUMNS_FOR_THREADS


# Two classes count drawn features with delta and all without; three classes sum residuals; numbers count sides.
@pytest.mark.parametrize(
    ("kind", "target", "delta"),
    [
        (DPForestClassifier, Classes([0, 1]), 0.0),
        (DPForestClassifier, Classes([0, 1]), 1e-6),
        (DPForestClassifier, Classes([0, 1, 2]), 0.0),
        (DPForestRegressor, Bounded(0, 2), 0.0),
    ],
)
def test_a_forest_does_not_depend_on_how_many_threads_share_its_columns(kind, target, delta):
    X = np.random.default_rng(0).random((N_ROWS, N_COLUMNS))
    y = np.digitize(X[:, 0] + X[:, 1], [0.8, 1.2] if target != Classes([0, 1]) else [1.0])
    schema = Schema({f"x{index}": Numeric(0, 1) for index in range(N_COLUMNS)}, target)
    parameters = {"epsilon": 4.0, "delta": delta, "n_trees": 3, "max_depth": 3, "random_state": 0}
    one, three = (kind(schema, n_jobs=n_jobs, **parameters).fit(X, y).forest_ for n_jobs in (1, 3))
    assert one.n_nodes > one.n_trees
    assert_same_forest(three, one)


# --- numbers of records in bins around a centre -------------------------------------------------------------------------

AROUND = Schema({"x": Numeric(), "c": Categorical(["a"]), "z": Numeric(-5, 1000)}, Classes([0, 1]))
AROUND_DOMAIN = Domain.of(AROUND, Grid(4))
NUMBERS = st.one_of(
    st.floats(), st.integers(-(10**6), 10**6).map(float), st.sampled_from([0.0, -0.0, 5e-324, 1e308, 2.0**-60])
)


def around(values, part, centre):
    counts, (low, high) = np.zeros(N_BINS + 1, dtype=np.int64), part.range
    for value in values:
        counts[MISSING if value != value else bin_of(min(max(value, low), high), centre)] += 1
    return counts


@FIXED
@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from([0, 1, "unlisted"])), max_size=12), NUMBERS)
def test_every_kept_record_is_in_the_bin_of_its_value(rows, centre):
    centre = 0.0 if not abs(centre) <= 2.0**63 else centre
    first, second, labels = ([row[k] for row in rows] for k in range(3))
    table = np.array([first, ["a"] * len(rows), second], dtype=object).T.reshape(len(rows), 3)
    vault = Vault.seal(table, np.array(labels, dtype=object), AROUND)
    found = opened(vault.count_around(AROUND_DOMAIN, {0: centre, 2: 3.0}))
    kept = [label != "unlisted" for label in labels]
    wanted = [[value for value, stays in zip(values, kept, strict=True) if stays] for values in (first, second)]
    np.testing.assert_array_equal(
        found, [around(wanted[0], AROUND_DOMAIN.number(0), centre), around(wanted[1], AROUND_DOMAIN.number(2), 3.0)]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint64, bool])
def test_columns_of_every_type_of_number_are_counted_alike(monkeypatch, dtype):
    monkeypatch.setattr(workers, "THREAD_CELLS", 1)
    values = np.random.default_rng(3).integers(0, 2 if dtype is bool else 100, 1000).astype(dtype)
    schema = Schema({"x": Numeric(), "y": Numeric(0, 50)}, Classes([0]))
    wanted = [[bin_of(min(value, most), centre) for value in values.tolist()] for centre, most in [(7.0, 100), (0.0, 50)]]
    for n_jobs in (1, 3):
        vault = Vault.seal(np.stack([values, values], axis=1), np.zeros(len(values), dtype=int), schema, n_jobs)
        found = opened(vault.count_around(Domain.of(schema, Grid(4)), {0: 7.0, 1: 0.0}))
        np.testing.assert_array_equal(found, [np.bincount(bins, minlength=N_BINS + 1) for bins in wanted])
