"""A node is offered exactly the splits that divide the codes it can hold, and no row has a say in it."""

from collections import Counter
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from tests.support.strategies import FIXED, domains, reaches

from dpforest import Categorical, Classes, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.parts.proposals import AllSubsets, Menu, OneAgainstRest, OneChildPerValue, RandomSubsets, Thresholds
from dpforest.schema.domain import Domain, Grid

# Every chi-square test below fails by chance with this probability, over the choice of its fixed seed.
RARE = 1e-6


def domain_of(*features, bins=6):
    named = {f"f{index}": part for index, part in enumerate(features)}
    return Domain.of(Schema(named, Classes(["a", "b"])), Grid(bins))


def offer(menu, domain, reach, seed=0):
    return menu.propose(domain, menu.fixed(domain), np.atleast_2d(reach), np.random.default_rng(seed))


def held_codes(domain, reach, feature):
    return set(np.flatnonzero(reach[domain.offsets[feature] : domain.offsets[feature + 1]]).tolist())


def offered(candidates, domain, reach, node=0):
    """Each valid candidate of a node as a feature and the sets of held codes of its children."""
    splits = []
    for route in candidates.indices[node, candidates.valid[node]]:
        feature = int(candidates.routes.features[route])
        children = candidates.routes.children(np.array([route]))[0]
        held = held_codes(domain, reach[node], feature)
        parts = {child: frozenset(code for code in held if children[code] == child) for child in children.tolist()}
        splits.append((feature, frozenset(part for part in parts.values() if part)))
    return splits


def two_parts(left, right):
    return frozenset([frozenset(left), frozenset(right)])


def splits_of(kind, domain, held):
    """The valid splits of a node that can hold these codes of the only feature."""
    reach = np.array([[code in held for code in range(domain.total_codes)]])
    return Counter(parts for _, parts in offered(offer(Menu((kind,)), domain, reach), domain, reach))


@pytest.mark.parametrize(
    ("kinds", "n_children"),
    [
        ((Thresholds(), OneAgainstRest()), [2, 2, 2]),
        ((RandomSubsets(), Thresholds()), [2, 2, 2]),
        ((OneChildPerValue(numeric=False), Thresholds()), [2, 3, 4]),
        ((Thresholds(), OneChildPerValue(numeric=False)), [2, 3, 4]),
        ((OneChildPerValue(),), [6, 3, 4]),
    ],
    ids=str,
)
def test_a_menu_counts_two_children_or_as_many_as_a_feature_that_is_split_by_value_has_values(kinds, n_children):
    domain = domain_of(Numeric(0, 1), Categorical(["a", "b", "c"]), Categorical(["a", "b", "c", "d"]))
    assert Menu(kinds).n_children(domain).tolist() == n_children


@pytest.mark.parametrize("missing", [set(), {6}], ids=["never missing", "may be missing"])
def test_thresholds_are_every_cut_between_held_bins_and_missing_against_the_rest_once_each(missing):
    for lowest, highest in combinations_with_replacement(range(7), 2):
        bins = set(range(lowest, highest))
        low_parts = [set(range(lowest, cut)) for cut in range(lowest + 1, highest)]
        expected = Counter(two_parts(low, bins - low | missing) for low in low_parts)
        expected.update([two_parts(missing, bins)] if missing and bins else [])
        assert splits_of(Thresholds(), domain_of(Numeric(0, 6)), bins | missing) == expected


def subsets(n):
    return [set(some) for size in range(n + 1) for some in combinations(range(n), size)]


def test_one_against_rest_is_every_held_value_against_the_other_held_ones():
    for held in subsets(5):
        expected = Counter(two_parts({code}, held - {code}) for code in held) if len(held) > 1 else Counter()
        assert splits_of(OneAgainstRest(), domain_of(Categorical(["a", "b", "c"])), held) == expected


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_all_subsets_are_every_way_to_divide_the_list_once_and_other_and_missing_against_the_rest(n):
    domain, other, missing = domain_of(Categorical([*"abcd"][:n])), {n}, {n + 1}
    # Each way once: the side without the last category, which the unlisted and missing values go with.
    lists = [some for some in subsets(n - 1) if some]
    everything = set(range(n + 2))
    expected = Counter(two_parts(some, everything - some) for some in [*lists, other, missing])
    assert splits_of(AllSubsets(4), domain, everything) == expected
    listed = Counter(two_parts(some, set(range(n)) - some) for some in lists)
    assert splits_of(AllSubsets(4), domain, set(range(n))) == listed


def test_long_lists_have_random_subsets_and_short_ones_all():
    domain = domain_of(Categorical([*"ab"]), Numeric(0, 1), Categorical([*"abcde"]), Categorical([*"abcdefgh"]))
    kinds = AllSubsets(5), RandomSubsets(7, beyond=5)
    assert Counter(kinds[0].fixed(domain).features.tolist()) == {0: 1 + 2, 2: 15 + 2}
    assert Counter(kinds[1].drawn(domain, 3, np.random.default_rng(0)).features.tolist()) == {3: 3 * 7}
    assert AllSubsets(1).fixed(domain) is None


def test_one_child_per_value_is_one_split_into_single_held_values():
    for held in subsets(5):
        expected = Counter([frozenset(frozenset([code]) for code in held)]) if len(held) > 1 else Counter()
        assert splits_of(OneChildPerValue(), domain_of(Categorical(["a", "b", "c"])), held) == expected


@pytest.mark.parametrize(
    ("kind", "feature"),
    [
        (Thresholds(), Categorical(["a"])),
        (OneAgainstRest(), Numeric(0, 1)),
        (AllSubsets(), Numeric(0, 1)),
        (AllSubsets(2), Categorical(["a", "b", "c"])),
        (RandomSubsets(beyond=1), Categorical(["a"])),
        (OneChildPerValue(numeric=False), Numeric(0, 1)),
        (RandomSubsets(), Numeric(0, 1)),
    ],
)
def test_a_kind_of_split_that_fits_no_feature_of_the_schema_is_refused(kind, feature):
    domain = domain_of(feature)
    with pytest.raises(ParameterError, match="no split for any feature"):
        offer(Menu((kind,)), domain, np.ones((1, domain.total_codes), dtype=bool))


def test_random_subsets_take_each_value_with_probability_one_half_for_each_node_anew():
    n_nodes = 4000
    routes = RandomSubsets(1).drawn(domain_of(Categorical(["a", "b"])), n_nodes, np.random.default_rng(1))
    subsets = routes.children(np.arange(routes.n_routes)) @ [1, 2, 4, 8]
    assert chisquare(np.bincount(subsets, minlength=16)).pvalue > RARE
    pairs = subsets[:-1] % 4 * 4 + subsets[1:] % 4
    assert chisquare(np.bincount(pairs, minlength=16)).pvalue > RARE


def test_every_split_of_every_kind_is_offered_together_in_one_menu():
    domain = domain_of(Numeric(0, 1), Categorical(["a", "b"]), bins=3)
    reach = np.ones((1, domain.total_codes), dtype=bool)
    menu = Menu((Thresholds(), OneAgainstRest(), OneChildPerValue()))
    alone = [split for kind in menu.kinds for split in offered(offer(Menu((kind,)), domain, reach), domain, reach)]
    together = offered(offer(menu, domain, reach), domain, reach)
    assert len(together) == 3 + 4 + 2
    assert Counter(together) == Counter(alone)


def test_nothing_is_offered_where_nothing_can_be_divided():
    domain = domain_of(Numeric(0, 1), Categorical(["a", "b"]))
    reach = np.zeros((2, domain.total_codes), dtype=bool)
    reach[:, domain.offsets[:-1]] = True
    reach[1, 1] = True
    menu = Menu((Thresholds(), OneAgainstRest(), OneChildPerValue(), RandomSubsets()))
    for random in (False, True):
        valid = offer(Menu(menu.kinds, random=random), domain, reach).valid
        assert not valid[0].any()
        assert valid[1].any()


@FIXED
@given(domains(), st.data())
def test_wanted_features_are_those_of_valid_candidates(domain, data):
    reach = data.draw(reaches(domain, 3))
    candidates = offer(Menu((OneChildPerValue(), Thresholds(), OneAgainstRest()), n_features=2), domain, reach)
    wanted = candidates.wanted(domain.n_features)
    for node in range(3):
        assert set(np.flatnonzero(wanted[node])) == {feature for feature, _ in offered(candidates, domain, reach, node)}


NUMBERS = (Numeric(0, 1), Numeric(0, 9, integer=True), Numeric(-1, 1))
MANY = domain_of(*NUMBERS, Categorical(["a", "b"]), Categorical(["a"]))


@pytest.mark.parametrize(("n_features", "n_drawn"), [(1, 1), (2, 2), (0.34, 2), (0.2, 1), (5, 5), (7, 5), (None, 5)])
def test_a_node_is_offered_so_many_features_and_all_splits_of_each(n_features, n_drawn):
    reach = np.ones((50, MANY.total_codes), dtype=bool)
    candidates = offer(Menu(n_features=n_features), MANY, reach)
    everything = offer(Menu(), MANY, reach)
    for node in range(50):
        features = {feature for feature, _ in offered(candidates, MANY, reach, node)}
        assert len(features) == n_drawn
        expected = everything.valid[node] & np.isin(everything.features[node], list(features))
        assert (candidates.valid[node] == expected).all()


def test_features_of_a_node_are_drawn_with_equal_chances():
    n_nodes = 6000
    reach = np.ones((n_nodes, MANY.total_codes), dtype=bool)
    wanted = offer(Menu(n_features=2), MANY, reach, seed=3).wanted(5)
    pairs = list(combinations(range(5), 2))
    counts = [int((wanted[:, a] & wanted[:, b]).sum()) for a, b in pairs]
    assert sum(counts) == n_nodes
    assert chisquare(counts).pvalue > RARE


def test_a_random_split_has_equal_chances_by_feature_and_then_by_route():
    n_nodes = 20_000
    domain = domain_of(Numeric(0, 1), Categorical(["a", "b"]), Numeric(0, 3, integer=True), Categorical(["a"]))
    reach = np.ones((n_nodes, domain.total_codes), dtype=bool)
    # The last feature can no longer be divided.
    reach[:, domain.offsets[3] + 1 :] = False
    candidates = offer(Menu(random=True), domain, reach, seed=4)
    assert candidates.n_candidates == 1
    assert candidates.valid.all()
    by_feature = np.bincount(candidates.features[:, 0], minlength=4)
    assert by_feature[3] == 0
    assert chisquare(by_feature[:3]).pvalue > RARE
    for feature in range(3):
        picked = candidates.routes.take(candidates.indices[candidates.features[:, 0] == feature, 0])
        _, counts = np.unique(picked.children(np.arange(picked.n_routes)), axis=0, return_counts=True)
        fixed = Menu().fixed(domain)
        assert len(counts) == (fixed.features == feature).sum()
        assert chisquare(counts).pvalue > RARE
