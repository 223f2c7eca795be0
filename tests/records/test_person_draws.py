"""Which rows of a person are used: uniform, exact, and nobody else's business."""

import itertools
import math
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.records.holders import objects

from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.people import People, draw_below_each, draw_rows, person_indices, read_ids, replace_rows


@pytest.mark.parametrize(("n_rows", "most"), [(5, 2), (4, 1), (6, 4)])
def test_every_subset_comes_from_as_many_outcomes_of_the_coins(n_rows, most):
    later = np.arange(most, n_rows)
    subsets = Counter()
    for draws in itertools.product(*(range(rank + 1) for rank in later)):
        order = np.arange(n_rows)
        replace_rows(order, later, later, np.array(draws), most)
        subsets[tuple(sorted(order[:most]))] += 1
    assert len(subsets) == math.comb(n_rows, most)
    assert len(set(subsets.values())) == 1


def test_coins_are_uniform_below_their_own_limit():
    limits = np.tile([1, 2, 3, 7, 300], 20_000)
    draws = np.empty(len(limits), dtype=np.int64)
    Entropy(1).run(draw_below_each, len(draws), limits, draws)
    for limit in (1, 2, 3, 7):
        found = np.bincount(draws[limits == limit], minlength=limit)
        assert len(found) == limit
        assert abs(found - 20_000 / limit).max() < 5 * math.sqrt(20_000 / limit)
    assert draws.max() < 300


def test_a_person_keeps_all_rows_or_as_many_as_allowed():
    persons = np.random.default_rng(0).integers(-1, 50, 600)
    kept = draw_rows(persons, 7, Entropy())
    sizes, used = np.bincount(persons[persons >= 0], minlength=50), np.bincount(persons[kept], minlength=50)
    assert (used == np.minimum(sizes, 7)).all()
    assert not kept[persons < 0].any()
    assert draw_rows(np.empty(0, dtype=np.int64), 7, Entropy()).shape == (0,)


def law_of_kept(persons, most):
    """Exact probabilities of the sets of kept rows, as places in the table."""
    rows_of = [np.flatnonzero(persons == person).tolist() for person in sorted({*persons.tolist()} - {-1})]
    choices = [list(itertools.combinations(rows, min(most, len(rows)))) for rows in rows_of]
    law = Counter(tuple(sorted(sum(parts, ()))) for parts in itertools.product(*choices))
    return {rows: count / sum(law.values()) for rows, count in law.items()}


@pytest.mark.slow
def test_the_law_of_other_persons_rows_does_not_change_with_a_person():
    """On 6,000 draws each, with and without a person who stands first and has many rows."""
    others = np.array([0, 1, 0, 0, 1])
    with_one = np.concatenate([np.full(6, 2), others])
    alone = Counter(tuple(np.flatnonzero(draw_rows(others, 1, Entropy(seed)))) for seed in range(6000))
    beside = Counter(tuple(np.flatnonzero(draw_rows(with_one, 1, Entropy(seed))[6:])) for seed in range(6000))
    law = law_of_kept(others, 1)
    assert set(alone) == set(beside) == set(law)
    for rows, probability in law.items():
        for found in (alone, beside):
            assert found[rows] / 6000 == pytest.approx(probability, abs=5 * math.sqrt(probability / 6000))


AS_COLUMNS = [
    list, objects, pd.Series, pl.Series, lambda ids: pa.chunked_array([pa.array(ids[:2]), pa.array(ids[2:])]),
    lambda ids: pd.Series(ids, dtype="category"),
]  # fmt: skip


@pytest.mark.parametrize("ids", [["b", "a", None, "b"], [7, 3, None, 7], [0.0, 1.5, None, -0.0]], ids=str)
def test_ids_of_any_library_give_the_same_persons_and_missing_ones_none(ids):
    for make in AS_COLUMNS:
        indices = person_indices(read_ids(make(ids)))
        assert indices[2] == -1
        assert indices[0] == indices[3] != indices[1]
        assert min(indices[0], indices[1]) >= 0


def test_whether_two_rows_are_one_persons_does_not_depend_on_other_rows():
    for ids in ([1, "1"], [1, "1", "x", 2.5]):
        assert len(set(person_indices(read_ids(ids)).tolist())) == len(ids)
    ones, halves = [1, 1.0, True], [0.5, Decimal("0.5"), Fraction(1, 2), np.longdouble("0.5"), complex(0.5)]
    for first in range(5):
        assert set(person_indices(read_ids([*halves[first:], *halves[:first]])).tolist()) == {0}
        assert set(person_indices(read_ids(ones[first:] + ones[:first])).tolist()) == {0}
    assert person_indices(read_ids([7, "7", UUID(int=7), UUID(int=7)])).tolist() == [0, 1, 2, 2]


NO_IDS = [
    [1], {}, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), ("a", float("nan")), ("a", 1), frozenset("a"),
]  # fmt: skip


@pytest.mark.parametrize("odd", NO_IDS, ids=str)
def test_what_cannot_be_an_id_is_a_missing_one(odd):
    assert person_indices(read_ids(["a", odd, odd, "a"])).tolist() == [0, -1, -1, 0]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [(np.zeros((3, 2)), "groups"), (np.zeros(3, dtype=complex), "groups"), (np.zeros(3, dtype="M8[s]"), "groups"),
     (np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), "masked")],
    ids=str,
)  # fmt: skip
def test_groups_that_are_no_ids_are_refused_by_their_type(wrong, words):
    with pytest.raises(TableError, match=words):
        read_ids(wrong)


def test_rows_without_a_target_take_nobodys_place():
    target = np.array([-1, -1, -1, 1, 0], dtype=np.int16)
    kept = People(2, Entropy()).leave_out([read_ids(["a"] * 5)], target)
    assert kept.tolist() == target.tolist()
    assert kept.dtype == target.dtype


def test_bytes_are_no_text_and_are_never_compared_with_one():
    """Python can be told to stop at such a comparison, so that one id would end a fit."""
    code = "from dpforest.records.people import person_indices, read_ids; print(person_indices(read_ids(['p', b'p', b'p'])))"
    done = subprocess.run([sys.executable, "-bb", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[0", "1", "1]"]
