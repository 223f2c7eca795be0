"""One suite for all backends: the same answers as in memory to the last unit, the same ledgers, forests as good."""

import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from dpforest.records.sql.vault import TOO_DEEP
from tests.conformance.conformance import NAME, Twin, TwinSource, grow_at_random, in_memory, offering_all
from tests.conformance.conformance_backends import OPENERS, backends
from tests.conformance.conformance_tables import SIZES, TARGETS, dated, easy, nasty
from tests.support.encoded import opened as unsealed

from dpforest import get_recipe, list_recipes
from dpforest.errors import ParameterError, TableError
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing.target_scale import edges_around
from dpforest.mechanisms import Entropy
from dpforest.parts.sampling import EveryRecord
from dpforest.pipeline import fit_forest
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.base import CAPABILITIES, AllTrees, OneTree, Openable, Poisson, Scored, Weighted, check_support
from dpforest.records.memory.counter import MemoryCounter
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Bounded, Categorical, Classes
from dpforest.schema.domain import Domain, Grid
from dpforest.schema.scales import N_BINS

pytestmark = pytest.mark.slow

ASSIGNMENTS = (OneTree(2), AllTrees(2), Poisson(2))
RECIPES = [(recipe["name"], task) for recipe in list_recipes() for task in recipe["tasks"]]
# Every kind of target on a table with everything in it, and tables without records or nearly so.
CASES = [*(("mixed", kind) for kind in TARGETS)]
CASES += [("one row", "bounded"), ("empty", "four classes"), ("all left out", "two classes")]
WITH_CLASSES = [case for case in CASES if isinstance(TARGETS[case[1]], Classes)]
BOUNDED = ["mixed", "empty"]
# Fine grids have a test of their own; elsewhere they would make every query of an account that only reads long.
FEW_BINS = Grid(bins=5)


backend = backends(OPENERS)


def a_gate(epsilon, seed=None):
    return Gate(Ledger(make_accountant(epsilon, 0.0)), Entropy(seed))


def twin_source(backend, table, schema):
    return TwinSource(backend.seal(table, schema), in_memory(table, schema))


def encoded(backend, size, kind, grid=FEW_BINS):
    return twin_source(backend, *nasty(size, kind)).encode(Domain.of(nasty(size, kind)[1], grid))


def skip_gap(backend, *needs):
    """Declared gaps have a test of their own: each is refused."""
    for need in backend.gaps.intersection(needs):
        pytest.skip(f"{backend.name} is not {need.__name__}")


def levels_of(size):
    """How deep trees are grown: where there are next to no records, a second level asks nothing new."""
    return 2 if size == "mixed" else 1


def all_records(twin: Twin):
    twin.deal(AllTrees(1), Entropy())


@pytest.mark.parametrize(("size", "kind"), CASES)
def test_records_are_counted_and_encoded_as_in_memory(backend, size, kind):
    table, schema = nasty(size, kind)
    source = twin_source(backend, table, schema)
    source.count()
    for grid in (Grid(scales=True), Grid(bins=5))[: 2 if size == "mixed" else 1]:
        twin = source.encode(Domain.of(schema, grid))
        all_records(twin)
        assert (twin.most_per_feature, twin.most_per_node, twin.code_width) == (1, 1, schema.target.width)
        twin.count_codes(0, np.ones((1, schema.n_features), dtype=bool))
        twin.count_nodes(0, 3)


@pytest.mark.parametrize("size", [*BOUNDED, "all left out"])
def test_targets_are_counted_by_edges_and_read_again_as_in_memory(backend, size):
    table, schema = nasty(size, "bounded")
    for target in (schema.target, Bounded(name="y"), Bounded(lower=0.5, name="y")):
        source = twin_source(backend, table, replace(schema, target=target))
        for centre in (0.5, 5.0):
            source.count_targets(edges_around(centre, np.ldexp(1.0, np.arange(-30, 40)), target))
        source.count_targets(np.array([0.123456789, np.nextafter(0.123456789, 1), 1.5, 2.0**60]))
        source.count_targets(np.empty(0))
        for narrow in (Bounded(0.1, 1.5, name="y"), Bounded(0.123456789, 0.12345679, name="y")):
            narrowed = source.narrowed(narrow)
            narrowed.count()
            twin = narrowed.encode(Domain.of(schema, FEW_BINS))
            assert twin.target == narrow
            all_records(twin)
            twin.count_values(0, 1)
            twin.count_nodes(0, 1)
        source.close()


@pytest.mark.parametrize(("size", "kind"), CASES)
def test_bins_around_a_centre_hold_the_same_records_as_in_memory(backend, size, kind):
    table, schema = nasty(size, kind)
    source, domain = twin_source(backend, table, schema), Domain.of(schema, FEW_BINS)
    numeric = np.flatnonzero(domain.is_numeric).tolist()
    for centre in (0.0, 1.5, -(2.0**62), 1e-30)[: 4 if size == "mixed" else 1]:
        counts = source.count_around(domain, dict.fromkeys(numeric, centre))
        held = unsealed(counts)
        assert held.shape == (len(numeric), N_BINS + 1)
        assert set(held.sum(axis=1)) == set(unsealed(source.count()))


@pytest.mark.parametrize(("size", "kind"), CASES)
def test_texts_of_every_column_are_counted_as_in_memory(backend, size, kind):
    source = twin_source(backend, *nasty(size, kind))
    counts = {name: source.count_texts(name)._value for name in source.schema.features}
    if size == "mixed":
        assert counts["city"].keys() >= {"Oslo", "it's", "", "ÅÅ"}
        assert counts["flag"].keys() == {"0", "1"}
        assert sum(counts[NAME].values()) == source.count()._value[0]


@pytest.mark.parametrize("delta", [0.05, 1e-5])
def test_lists_are_learnt_as_in_memory(backend, delta):
    table, schema = easy(300)
    learnt = replace(schema, features={**schema.features, "city": Categorical(learn=True)})
    if backend.name == "spark":
        with pytest.raises(TableError, match="lists are learnt in DuckDB and PostgreSQL only, not in 'pyspark'"):
            backend.seal(table, learnt)
        return
    gate = Gate(Ledger(make_accountant(8.0, delta)), Entropy(1))
    forest = fit_forest(twin_source(backend, table, learnt), get_recipe("jagannathan-2009"), gate, n_trees=1, max_depth=1)
    assert sorted(forest.domain.lists["city"]) == ["a", "b", "c"]


@pytest.mark.parametrize("grid", [FEW_BINS, Grid()], ids=["few bins", "the calendar"])
def test_dates_are_encoded_as_in_memory(backend, grid):
    table, schema = dated(40)
    if backend.name == "spark":
        with pytest.raises(TableError, match="dates are read in DuckDB and PostgreSQL only, not in 'pyspark'"):
            backend.seal(table, schema)
        return
    domain = Domain.of(schema, grid)
    twin = twin_source(backend, table, schema).encode(domain)
    all_records(twin)
    twin.count_codes(0, np.ones((1, domain.n_features), dtype=bool))


@pytest.mark.parametrize(("size", "kind"), CASES)
def test_levels_of_every_sampling_are_counted_as_in_memory(backend, size, kind):
    twin, rng = encoded(backend, size, kind), np.random.default_rng(SIZES[size])
    for assignment in ASSIGNMENTS:
        if isinstance(assignment, Poisson) and Weighted in backend.gaps:
            continue
        twin.deal(assignment, Entropy())
        grow_at_random(twin, 2, levels_of(size), rng)


def test_deals_are_drawn_anew_for_each_record(backend):
    skip_gap(backend, Weighted)
    twin = encoded(backend, "mixed", "two classes, others no")
    drawn = []
    for _ in range(4):
        twin.deal(Poisson(3), Entropy())
        drawn.append(twin._reference._weights.copy())
    assert all((drawn[0] != other).any() for other in drawn[1:])
    # 564 draws: a mean and a variance of 1, with standard errors of 0.04 and 0.06
    assert 0.75 < np.mean(drawn) < 1.25
    assert 0.6 < np.var(drawn) < 1.6
    twin.deal(OneTree(2), Entropy())
    assert 0 < twin._reference._positions.mean() < 1


scored_tables = pytest.mark.parametrize(
    ("size", "kind"), [("mixed", "two classes, others no"), ("mixed", "four classes"), ("empty", "two classes")]
)


@scored_tables
def test_weights_of_classes_follow_released_scores_as_in_memory(backend, size, kind):
    skip_gap(backend, Scored, Weighted)
    twin, rng = encoded(backend, size, kind), np.random.default_rng(1)
    n_classes = twin.target.n_values
    twin.start_scores()
    # Scores that are small, and beyond the table of powers.
    for most in (SCORE_STEPS // 4, 40 * SCORE_STEPS):
        all_records(twin)
        twin.weigh_residuals()
        assert twin.most_per_feature == twin.most_per_node == 255
        n_nodes = grow_at_random(twin, 1, 1, rng)
        twin.sum_residuals(0, n_nodes)
        twin.add_scores(rng.integers(-most, most + 1, (n_nodes, n_classes)).astype(np.int32))
    all_records(twin)
    assert twin.most_per_feature == 1
    twin.count_nodes(0, 1)
    twin.sum_residuals(0, 1)


@pytest.mark.parametrize("is_weighted", [False, True])
@scored_tables
def test_residuals_are_summed_by_code_as_in_memory(backend, size, kind, is_weighted):
    skip_gap(backend, Scored, Weighted)
    twin, rng = encoded(backend, size, kind), np.random.default_rng(2)
    n_classes = twin.target.n_values
    twin.start_scores()
    for most in (SCORE_STEPS // 4, 40 * SCORE_STEPS):
        all_records(twin)
        if is_weighted:
            twin.weigh_residuals()
        twin.spread_residuals()
        assert (twin.most_per_feature, twin.most_per_node, twin.code_width) == (255, 1, n_classes + 1)
        n_nodes = grow_at_random(twin, 1, 2, rng)
        twin.sum_residuals(0, n_nodes)
        twin.count_nodes(0, n_nodes)
        twin.add_scores(rng.integers(-most, most + 1, (n_nodes, n_classes)).astype(np.int32))
    all_records(twin)
    assert (twin.most_per_feature, twin.code_width) == (1, n_classes)
    grow_at_random(twin, 1, 1, rng)


@pytest.mark.parametrize(
    ("size", "labels"),
    [("mixed", ["no", "yes"]), ("mixed", [3, 1, 2]), ("mixed", [3, 1, 2, 9]), ("one row", ["no", "yes"]),
     ("empty", [3, 1, 2]), ("all left out", [3, 1, 2])],
    ids=str,
)  # fmt: skip
def test_leads_of_classes_are_counted_as_in_memory(backend, size, labels):
    skip_gap(backend, Scored)
    table, schema = nasty(size, "two classes" if labels[0] == "no" else "four classes")
    schema = replace(schema, target=Classes(labels, name="y"))
    twin, rng = twin_source(backend, table, schema).encode(Domain.of(schema, FEW_BINS)), np.random.default_rng(8)
    twin.start_scores()
    n_records = 0
    for most in (3, SCORE_STEPS, 1 << 28)[: 3 if size == "mixed" else 1]:
        all_records(twin)
        n_nodes = grow_at_random(twin, 1, 1, rng)
        twin.add_scores(rng.integers(-most, most + 1, (n_nodes, len(labels))).astype(np.int32))
        # Most bins are narrower than the scores are wide, so that their ends take in leads from beyond on both sides.
        for width, n_bins in [(1, 8), (7, 2), (64, 256)]:
            counts = unsealed(twin.count_leads(width, n_bins))
            assert counts.shape == (n_bins, len(labels))
            n_records = int(counts.sum())
            if size == "mixed" and most == 1 << 28:
                assert counts[0].any()
                assert counts[-1].any()
    all_records(twin)
    assert unsealed(twin.count_nodes(0, 1)).sum() == n_records


def values_by_code(twin, features, most, n_scores, rng):
    return [rng.integers(-most, most + 1, (int(twin.domain.n_codes[k]), n_scores)).astype(np.int32) for k in features]


@scored_tables
def test_scores_by_code_are_added_as_in_memory(backend, size, kind):
    skip_gap(backend, Scored, Weighted)
    twin, rng = encoded(backend, size, kind), np.random.default_rng(9)
    n_classes, features = twin.target.n_values, rng.permutation(twin.domain.n_features)[:3].tolist()
    twin.start_scores()
    # The last of them pass the range of scores one by one, and some pass it together.
    for most, own in [(SCORE_STEPS, features), (SCORE_STEPS, []), (SCORE_STEPS, features[:1]), (1 << 30, features)]:
        twin.add_by_code(own, values_by_code(twin, own, most, n_classes, rng))
        twin.count_leads(SCORE_STEPS // 8, 16)
        all_records(twin)
        twin.weigh_residuals()
        twin.count_nodes(0, 1)
        twin.sum_residuals(0, 1)
    # Two that cancel out, each far beyond the range.
    up, down = (
        np.full((int(twin.domain.n_codes[k]), n_classes), sign << 30, dtype=np.int32) for k, sign in ((0, 1), (1, -1))
    )
    twin.start_scores()
    twin.add_by_code([0, 1], [up, down])
    assert not unsealed(twin.count_leads(1, 2))[0].any()


@pytest.mark.parametrize("is_spread", [False, True], ids=["weights", "residuals"])
@pytest.mark.parametrize("n_batches", [1, 3])
@scored_tables
def test_trees_take_turns_on_batches_as_in_memory(backend, size, kind, n_batches, is_spread):
    skip_gap(backend, Scored, Weighted)
    twin, rng = encoded(backend, size, kind), np.random.default_rng(10)
    n_classes, n_records = twin.target.n_values, len(twin.batches)
    twin.start_scores()
    twin.divide(n_batches, Entropy())
    for batch in (0, n_batches - 1, n_batches // 2, None, 0):
        twin.take_turn(batch)
        all_records(twin)
        (twin.spread_residuals if is_spread else twin.weigh_residuals)()
        n_nodes = grow_at_random(twin, 1, 2, rng)
        twin.sum_residuals(0, n_nodes)
        twin.count_leads(SCORE_STEPS // 8, 16)
        twin.add_scores(rng.integers(-SCORE_STEPS, SCORE_STEPS + 1, (n_nodes, n_classes)).astype(np.int32))
        twin.add_by_code([0], values_by_code(twin, [0], SCORE_STEPS, n_classes, rng))
    sizes = []
    for batch in (*range(n_batches), None):
        twin.take_turn(batch)
        all_records(twin)
        twin.sum_residuals(0, 1)
        sizes.append(int(unsealed(twin.count_nodes(0, 1)).sum()))
    assert sum(sizes[:-1]) == sizes[-1] == n_records


@pytest.mark.parametrize("size", BOUNDED)
def test_views_of_a_bounded_target_take_turns_on_batches_as_in_memory(backend, size):
    skip_gap(backend, Scored, Weighted)
    twin, rng = encoded(backend, size, "bounded"), np.random.default_rng(11)
    twin.start_scores()
    twin.divide(2, Entropy())
    for batch in (0, 1, 1, 0, None):
        twin.take_turn(batch)
        all_records(twin)
        twin.set_residual_window(FINE_STEPS // 4)
        twin.count_values(0, 1)
        n_nodes = grow_at_random(twin, 1, 1, rng)
        twin.add_scores(rng.integers(-9000, FINE_STEPS // 2, (n_nodes, 1)).astype(np.int32))
        twin.add_by_code([1], values_by_code(twin, [1], 900, 1, rng))
        all_records(twin)
        twin.weigh_distances(0, np.array([TARGET_STEPS // 2]), 102)
        twin.count_codes(0, np.ones((1, twin.domain.n_features), dtype=bool))


def test_batches_are_drawn_anew_for_each_record(backend):
    skip_gap(backend, Scored, Weighted)
    drawn = []
    for _ in range(4):
        twin = encoded(backend, "mixed", "two classes, others no")
        twin.start_scores()
        twin.divide(2, Entropy())
        drawn.append(twin.batches[np.argsort(twin._names)])
    assert all((drawn[0] != other).any() for other in drawn[1:])
    # 188 draws: a mean of 1/2, with a standard error of 0.037
    assert 0.28 < np.mean(drawn) < 0.72
    # Records that are together in one draw are not in another.
    assert {1, 2} <= {len({*pair}) for pair in zip(*drawn[:2], strict=True)}


@pytest.mark.parametrize("size", BOUNDED)
def test_views_of_a_bounded_target_follow_released_values_as_in_memory(backend, size):
    skip_gap(backend, Scored, Weighted)
    twin, rng = encoded(backend, size, "bounded"), np.random.default_rng(2)
    twin.start_scores()
    for half_width in (FINE_STEPS // 4, 1000):
        all_records(twin)
        twin.count_values(0, 2)
        n_nodes = grow_at_random(twin, 1, 1, rng)
        twin.count_values(0, n_nodes)
        twin.add_scores(rng.integers(-9000, FINE_STEPS, (n_nodes, 1)).astype(np.int32))
        all_records(twin)
        twin.set_residual_window(half_width)
        twin.count_values(0, 1)
        twin.count_nodes(0, 1)


@pytest.mark.parametrize("size", BOUNDED)
def test_sides_of_released_centres_are_counted_as_in_memory(backend, size):
    skip_gap(backend, Scored, Weighted)
    twin, rng = encoded(backend, size, "bounded"), np.random.default_rng(3)
    all_records(twin)
    first, n_open, everything = 0, 1, np.ones((1, twin.domain.n_features), dtype=bool)
    for reach in (102, TARGET_STEPS):
        twin.weigh_distances(first, rng.integers(0, TARGET_STEPS + 1, n_open), reach)
        assert (twin.most_per_feature, twin.most_per_node, twin.code_width) == (255, 1, 2)
        twin.count_codes(first, np.repeat(everything, n_open, axis=0))
        twin.count_nodes(first, n_open)
        feature = int(rng.integers(twin.domain.n_features))
        routes = rng.integers(0, 2, (n_open, int(twin.domain.n_codes.max()))).astype(np.uint16)
        children = first + n_open + 2 * np.arange(n_open)
        twin.descend(first, np.full(n_open, feature), routes, children)
        first, n_open = first + n_open, 2 * n_open
    all_records(twin)
    assert (twin.most_per_feature, twin.code_width) == (1, 3)
    twin.count_codes(0, everything)


@cache
def a_forest(size, kind):
    table, schema = nasty(size, kind)
    return fit_forest(in_memory(table, schema), get_recipe("consul-2020"), a_gate(3.0), n_trees=3, max_depth=2)


@pytest.mark.parametrize(("size", "kind"), WITH_CLASSES)
def test_errors_of_released_trees_are_counted_as_in_memory(backend, size, kind):
    twin, forest = encoded(backend, size, kind, Grid(bins=32)), a_forest(size, kind)
    twin.count_errors(forest, np.array([[1, 0, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]], dtype=bool))


@pytest.mark.parametrize(("size", "kind"), WITH_CLASSES)
def test_records_that_released_trees_get_wrong_are_dealt_and_counted_as_in_memory(backend, size, kind):
    skip_gap(backend, Weighted)
    twin = encoded(backend, size, kind, Grid(bins=32))
    twin.deal_by_errors(a_forest(size, kind), 2, Entropy())
    grow_at_random(twin, 2, levels_of(size), np.random.default_rng(4))


@pytest.mark.parametrize(("size", "kind"), [CASES[0], CASES[3], CASES[5]])
def test_held_out_records_are_a_part_of_their_own(backend, size, kind):
    for part in encoded(backend, size, kind).hold_out(0.3, Entropy()):
        part.deal(OneTree(2), Entropy())
        grow_at_random(part, 2, levels_of(size), np.random.default_rng(5))


@offering_all
class Spy:
    """Records in memory, and the protocols that their questions belong to."""

    def __init__(self, counter, needed):
        self._shards, self._needed = counter, needed

    def __getattr__(self, name):
        self._needed |= {need for need in CAPABILITIES if name in vars(need)}
        return getattr(self._shards, name)

    def deal(self, assignment, entropy):
        self._needed |= {Weighted} if isinstance(assignment, Poisson) else set()
        self._shards.deal(assignment, entropy)

    def hold_out(self, share, entropy):
        return tuple(Spy(part, self._needed) for part in self._shards.hold_out(share, entropy))


@cache
def protocols_needed(name, task):
    """Protocols to which the questions of a fit belong."""
    table, schema = easy(24, task == "classification")
    vault, needed = in_memory(table, schema), set()
    encode = vault.encode
    vault.encode = lambda domain, progress: Spy(encode(domain, progress), needed)
    fit_forest(vault, get_recipe(name), a_gate(1.0), n_trees=2, max_depth=2)
    return frozenset(needed)


@pytest.mark.parametrize(("name", "task"), RECIPES)
def test_every_recipe_fits_with_the_answers_and_the_ledger_of_memory_or_is_a_declared_gap(backend, name, task):
    """Charges follow from answers and coins, so with all answers alike the ledger is that of a fit in memory."""
    table, schema = easy(24, task == "classification")
    gate, source = a_gate(1.0), twin_source(backend, table, schema)
    if backend.gaps.intersection(get_recipe(name).needs):
        with pytest.raises(ParameterError, match=f"Recipe '{name}' asks for .*temporary tables.* Use "):
            fit_forest(source, get_recipe(name), gate, n_trees=2, max_depth=2)
        assert gate.ledger.entries() == []
        return
    fit_forest(source, get_recipe(name), gate, n_trees=2, max_depth=2)
    assert 0.0 < gate.ledger.spent <= 1.0


@pytest.mark.parametrize("name", ["patil-singh-2014", "liu-2022"])
def test_a_first_look_sees_the_tables_of_memory(backend, name):
    """Its recipes have bootstraps, which not every backend draws; the look itself asks for no more than counts."""
    table, schema = easy(24, True)
    recipe = replace(get_recipe(name), sample=EveryRecord(), stages=None)
    gate = a_gate(1.0)
    fit_forest(twin_source(backend, table, schema), recipe, gate, n_trees=2, max_depth=2)
    assert gate.ledger.entries()[0]["label"] == "first look"


@pytest.mark.parametrize(("name", "task"), RECIPES)
def test_a_recipe_says_beforehand_what_it_needs(name, task):
    assert protocols_needed(name, task) <= {*get_recipe(name).needs}


def test_what_a_backend_does_not_offer_is_refused_with_a_reason_and_nothing_else(backend):
    source = backend.seal(*nasty("mixed", "two classes"))
    assert source.gaps.keys() == backend.gaps
    assert issubclass(type(source.encode(Domain.of(source.schema, FEW_BINS))), source.counter)
    for need in (*CAPABILITIES, Openable):
        if need not in backend.gaps:
            check_support(source, [need], "This test")
            continue
        with pytest.raises(ParameterError, match=re.escape(source.gaps[need])):
            check_support(source, [need], "This test")


def test_forests_that_are_too_deep_for_queries_are_refused(backend):
    if Scored not in backend.gaps:
        pytest.skip(f"{backend.name} keeps where records are")
    table, schema = nasty("mixed", "two classes")
    counter = backend.seal(table, schema).encode(Domain.of(schema, Grid(bins=32)))
    counter.deal(AllTrees(1), Entropy())
    deep = (np.zeros(5000, dtype=np.int64), np.zeros((5000, 64), dtype=np.uint16), np.arange(5000) + 5001)
    with pytest.raises(ParameterError, match=re.escape(TOO_DEEP)):
        counter.descend(1, *deep)


def test_rows_are_handed_out_as_in_memory_unless_that_is_a_declared_gap(backend):
    skip_gap(backend, Openable)
    table, schema = nasty("mixed", "four classes")
    ours, theirs = (source.rows()._value for source in (in_memory(table, schema), backend.seal(table, schema)))
    np.testing.assert_array_equal(ours.target, theirs.target)
    for own, other in zip(ours.columns, theirs.columns, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize(
    ("name", "task"), [("auto", "classification"), ("auto", "regression"), ("friedman-schuster-2010", "classification")]
)
def test_the_same_seed_gives_the_same_forest_where_all_trees_see_all_records(backend, name, task, epsilon):
    skip_gap(backend, *get_recipe(name).needs)
    table, schema = easy(24, task == "classification")
    gates = [a_gate(epsilon, 11) for _ in range(2)]
    sources = (in_memory(table, schema), backend.seal(table, schema))
    ours, theirs = (fit_forest(s, get_recipe(name), g, n_trees=3, max_depth=2) for s, g in zip(sources, gates, strict=True))
    for part in ("trees", "parents", "first_children", "features", "routes", "counts", "votes"):
        np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))
    assert gates[0].ledger.entries() == gates[1].ledger.entries()


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_fits_from_an_earlier_model_ask_and_answer_as_in_memory(backend, task, moved):
    table, schema = easy(24, task == "classification")
    earlier = fit_forest(in_memory(table, schema), get_recipe("auto"), a_gate(math.inf), n_trees=3, max_depth=2)
    if moved:  # by votes for what is not so; it is left then
        earlier = replace(earlier, votes=-earlier.votes if earlier.link == "softmax" else 1 - earlier.votes)
    gate, source = a_gate(math.inf), twin_source(backend, table, schema)
    if backend.gaps.intersection(get_recipe("auto").needs):
        with pytest.raises(ParameterError, match="asks for"):
            fit_forest(source, get_recipe("auto"), gate, n_trees=3, max_depth=2, earlier=earlier)
        assert gate.ledger.entries() == []
        return
    forest = fit_forest(source, get_recipe("auto"), gate, n_trees=3, max_depth=2, earlier=earlier)
    assert (forest.n_earlier, forest.n_trees) == ((0, 3) if moved else (3, 6))


@pytest.mark.parametrize("classes", [True, False])
def test_disjoint_trees_learn_as_much_as_in_memory(backend, classes):
    table, schema = easy(600, classes, named=False)
    source = backend.seal(table, schema)
    forest = fit_forest(source, get_recipe("consul-2020"), a_gate(20.0, 11), n_trees=4, max_depth=3)
    shares = forest.predict(in_memory(table, schema).encode(forest.domain)._codes)
    actual = table.column("y").to_numpy()
    if classes:
        assert (shares.argmax(axis=1) == actual).mean() > 0.9
    else:
        errors = schema.target.mean_of(shares[:, 1]) - actual
        assert np.square(errors).mean() < 0.4 * actual.var()


class OffByOne(MemoryCounter):
    """Counts that are nearly right."""

    def count_codes(self, first, wanted):
        counts = super().count_codes(first, wanted)
        return counts.map(lambda own: own + (np.arange(own.size) == 3).reshape(own.shape))


def test_a_unit_too_much_in_one_cell_is_found():
    table, schema = nasty("mixed", "two classes")
    good, bad = (in_memory(table, schema).encode(Domain.of(schema, Grid(bins=5))) for _ in range(2))
    bad.__class__ = OffByOne
    with pytest.raises(AssertionError):
        grow_at_random(Twin(bad, good), 1, 1, np.random.default_rng(6))
