"""A split of open nodes equals its slow twin: idle children vanish, and no node is split beyond the cap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.strategies import FIXED, SEEDS, domains, menus, reaches

from dpforest.growing import growth as growth_module
from dpforest.growing.growth import MOST_NODES, Growth


@st.composite
def open_levels(draw):
    """Open nodes that can hold some codes only, candidates for each, and a choice."""
    domain, n_open = draw(domains()), draw(st.integers(1, 5))
    growth, menu, rng = Growth(domain, n_open), draw(menus), np.random.default_rng(draw(SEEDS))
    growth._reach = draw(reaches(domain, n_open))
    candidates = menu.propose(domain, menu.fixed(domain), growth.reach, rng)
    chosen = np.array([rng.choice(np.flatnonzero(valid)) if valid.any() else -1 for valid in candidates.valid])
    chosen[rng.random(n_open) < 0.2] = -1
    return growth, candidates, chosen


def check_split(growth, candidates, chosen, most_nodes):
    reach, reached, first = growth.reach, growth.reached, growth.first
    expected, children = naive.split(growth.domain, reach, candidates.routes, candidates.indices, chosen, first, most_nodes)
    features, routes, first_children = growth.split(candidates, chosen)
    assert features.tolist() == [feature for feature, _, _ in expected]
    assert first_children.tolist() == [child for _, _, child in expected]
    n_children = [sum(parent == node for parent, _ in children) for node in range(len(reach))]
    for node, (feature, child_of, _) in enumerate(expected):
        assert {code: int(routes[node, code]) for code in child_of} == child_of
        if feature >= 0:  # codes that cannot come go to some child that is there
            assert (routes[node, : growth.domain.n_codes[feature]] < n_children[node]).all()
    assert growth.first == first + len(reach)
    assert growth.reach.tolist() == [held for _, held in children]
    assert growth.open_trees.tolist() == [parent for parent, _ in children]  # the open nodes were roots
    listed = [holds_listed_value(growth.domain, expected[parent][0], held) for parent, held in children]
    n_listed = [sum(listed[row] for row, (parent, _) in enumerate(children) if parent == node) for node in range(len(reach))]
    assert growth.reached.tolist() == [
        reached[parent] / n_listed[parent] if is_listed else 0.0
        for (parent, _), is_listed in zip(children, listed, strict=True)
    ]


def holds_listed_value(domain, feature, held):
    """Whether a node can hold a value of a feature that the schema lists: not "other", not missing."""
    n_unlisted = 1 if domain.is_numeric[feature] else 2
    return any(held[domain.offsets[feature] : domain.offsets[feature + 1] - n_unlisted])


@FIXED
@given(open_levels())
def test_a_split_equals_its_twin(level):
    check_split(*level, MOST_NODES)


@FIXED
@given(open_levels(), st.integers(0, 12))
def test_a_split_under_a_cap_equals_its_twin(level, n_more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth_module, "MOST_NODES", level[0].n_open + n_more)
        check_split(*level, level[0].n_open + n_more)
