"""Persons on every backend: the records of memory where nobody has too many rows, and else the law of memory.

Coins are fresh, so tests state chances: each fails about once in a million runs, if the draws are sound.
"""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.conformance.conformance import NAME, TwinSource, in_memory, times_in_trees, within
from tests.conformance.conformance_backends import OPENERS, OTHERS, backends
from tests.conformance.conformance_tables import nasty
from tests.support.encoded import opened as unsealed

from dpforest.growing.target_scale import edges_around
from dpforest.mechanisms import Entropy
from dpforest.records.base import AllTrees
from dpforest.records.people import People
from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

backend = backends(name for name in OPENERS | OTHERS if name != "spark")  # which has no ids


# Ids of the rows of a table of 47, of every type that all engines have; nobody has more than a dozen of them.
NAN = float("nan")
IDS = {
    "whole": pa.array([None if row % 9 == 4 else row % 5 - 2 for row in range(47)], pa.int64()),
    "float": pa.array([(0.0, -0.0, NAN, None, 0.5, float("inf"), 1e300)[row % 7] for row in range(47)], from_pandas=False),
    "text": pa.array([("a", "A", "a ", "", None, "é", "e\u0301", "NaN", "it's")[row % 9] for row in range(47)]),
    "truth": pa.array([(True, False, None, None, None)[row % 5] for row in range(47)]),
}


@pytest.mark.parametrize(
    ("kind", "ids"), [("two classes", "whole"), ("bounded", "float"), ("bounded", "text"), ("four classes", "truth")]
)
def test_where_nobody_has_too_many_rows_records_are_those_of_memory(backend, kind, ids):
    table, schema = nasty("mixed", kind)
    table, people = table.append_column("person", IDS[ids]), People(30, Entropy())
    source = TwinSource(backend.seal(table, schema, "person", people), in_memory(table, schema, "person", people))
    (n_records,) = unsealed(source.count())
    assert 0 < n_records < 47 - IDS[ids].null_count
    domain = Domain.of(schema, Grid(bins=5))
    source.count_around(domain, dict.fromkeys(np.flatnonzero(domain.is_numeric).tolist(), 0.5))
    source.count_texts("town")
    for target in (schema.target, Bounded(0.1, 1.5, name="y")) if kind == "bounded" else ():
        source.count_targets(edges_around(0.5, np.ldexp(1.0, np.arange(-9, 9)), target))
        source = source.narrowed(target)
    twin = source.encode(domain)
    twin.deal(AllTrees(1), Entropy())
    twin.count_codes(0, np.ones((1, domain.n_features), dtype=bool))
    source.close()


def visits(rows_of, labels=("no", "yes")):
    """A table in which persons have rows of these names, each once for every time that it is in the list of its person."""
    rng = np.random.default_rng(3)
    rows = [(person, name) for person, names in rows_of.items() for name in names]
    rows = [rows[place] for place in rng.permutation(len(rows))]
    persons, names = zip(*rows, strict=True)
    targets = [labels[len(name) % 2] if "-" not in name else "maybe" for name in names]
    columns = {"person": pa.array(persons, pa.string()), NAME: pa.array(names), "x": [float(len(name)) for name in names]}
    listed = sorted({*names})
    features = {NAME: Categorical(listed), "x": Numeric(0, 20)}
    return pa.table(columns | {"y": pa.array(targets)}), Schema(features, Classes(labels, name="y")), listed


def times_kept(source, names):
    """How often rows of each name are among the records of a source."""
    domain = Domain.of(source.schema, Grid(bins=1))
    counter = source.encode(domain)
    counter.deal(AllTrees(1), Entropy())
    times = times_in_trees(counter, 1, domain.names.index(NAME))[0]
    assert not times[-2:].any()
    return Counter(dict(zip(names, times.tolist(), strict=False)))


N_PERSONS = 240


def test_all_subsets_of_a_persons_rows_are_equally_likely_and_persons_do_not_go_together(backend):
    """Each of 240 persons has four rows with a target, and some without that take no place; two of the four are used."""
    rows_of = {f"p{n}": [f"p{n}.{k}" for k in range(4)] + [f"p{n}.-{k}" for k in range(n % 3)] for n in range(N_PERSONS)}
    table, schema, names = visits(rows_of | {None: [f"nobody.{k}" for k in range(30)]})
    source = backend.seal(table, schema, "person", People(2, Entropy()))
    kept = times_kept(source, names)
    assert kept == times_kept(source, names)
    assert unsealed(source.count()) == [2 * N_PERSONS]
    drawn = [tuple(k for k in range(4) if kept[f"p{n}.{k}"]) for n in range(N_PERSONS)]
    subsets = Counter(drawn)
    assert {*subsets} == {*itertools.combinations(range(4), 2)}
    assert all(within(number, N_PERSONS, 1 / 6, 7) for number in subsets.values())
    alike = sum(one == other for one, other in itertools.pairwise(drawn))
    assert within(alike, N_PERSONS - 1, 1 / 6, 7)
    other = backend.seal(table, schema, "person", People(2, Entropy()))
    assert times_kept(other, names) != kept  # but with a chance of 6**-240
    other.close()
    source.close()


def test_equal_rows_of_a_person_are_rows_like_others(backend):
    """Of two equal rows and a third one, two are used: the equal ones with a chance of 1/3."""
    table, schema, names = visits({f"p{n}": [f"p{n}.a", f"p{n}.a", f"p{n}.b"] for n in range(N_PERSONS)})
    source = backend.seal(table, schema, "person", People(2, Entropy()))
    kept = times_kept(source, names)
    assert all(kept[f"p{n}.a"] + kept[f"p{n}.b"] == 2 for n in range(N_PERSONS))
    assert within(sum(kept[f"p{n}.a"] == 2 for n in range(N_PERSONS)), N_PERSONS, 1 / 3, 1)
    source.close()


SIZES = {"none": 0, "one": 1, "nine": 9, "ten": 10, "eleven": 11, "forty": 40}


def n_over(backend, claimed, most):
    """By how many records persons have more than is claimed, if so many rows of each are drawn."""
    rows_of = {person: [f"{person}.{k % 7}" for k in range(size)] for person, size in SIZES.items()}
    table, schema, names = visits(rows_of)
    source = backend.seal(table, schema, "person", People(most, Entropy()))
    kept = times_kept(source, names)
    assert unsealed(source.count()) == [sum(kept.values())]
    source.close()
    of_person = Counter()
    for name, times in kept.items():
        of_person[name.split(".")[0]] += times
    assert all(of_person[person] == min(size, most) for person, size in SIZES.items())
    return sum(max(times - claimed, 0) for times in of_person.values())


def test_no_more_than_k_rows_of_a_person_are_records_and_a_row_too_many_is_found(backend):
    assert n_over(backend, 10, 10) == 0
    assert n_over(backend, 10, 11) == 2


def test_a_secret_sample_is_of_persons(backend):
    """All rows that were drawn of a person are in it, or none, each person with a chance of 1/2."""
    rows_of = {f"p{n}": [f"p{n}.{k}" for k in range(1 + n % 4)] for n in range(N_PERSONS)}
    table, schema, names = visits(rows_of)
    source = backend.seal(table, schema, "person", People(2, Entropy()))
    if not source.can_sample:
        pytest.skip(f"{backend.name} has no coins of persons that stay")
    (n_records,) = unsealed(source.count())
    kept = times_kept(source, names)
    sample = source.sampled(Fraction(1, 2), Entropy())
    own = times_kept(sample, names)
    assert unsealed(sample.count()) == [sum(own.values())]
    assert n_records == sum(kept.values())
    used = [{own[name] == kept[name] for name in rows_of[f"p{n}"] if kept[name]} for n in range(N_PERSONS)]
    assert all(len(whole) == 1 for whole in used)
    is_in = [whole == {True} for whole in used]
    assert within(sum(is_in), N_PERSONS, 0.5, 2)
    assert within(sum(one == other for one, other in itertools.pairwise(is_in)), N_PERSONS - 1, 0.5, 2)
    assert not any(times and not kept[name] for name, times in own.items())
    source.close()
