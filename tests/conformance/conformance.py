"""Tables of every kind of value under any names, and all that is asked of a vault of them."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from tests.support.encoded import opened

from dpforest.growing.target import edges_around
from dpforest.mechanisms import Entropy
from dpforest.records.people import People
from dpforest.records.vault import Vault
from dpforest.schema import Bounded, Categorical, Classes, Date, Numeric, Schema
from dpforest.schema.domain import Domain, Grid

LISTED = ("Oslo", "it's", 'a"b', "", "NaN", "null", "1")
WORDS = st.sampled_from([*LISTED, "ÅÅ", "oslo", "东京", "😀", " a", "a\\b", "a,b\nc", "w" * 300])
# In a file of text an empty cell is missing, as some words are, and blanks around others are not read.
PLAIN_WORDS = st.sampled_from(["Oslo", "it's", 'a"b', "ÅÅ", "oslo", "东京", "a\\b", "a,b\nc"])
EXTREMES = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0, 1e300, -1e300, 5e-324, np.nextafter(0.5, 0)])
PARCELS = st.sampled_from(
    [17.0, -0.0, 3.5, np.nan, np.inf, 2.0**53, -(2.0**63), 2.0**63, 2.0**64 - 2048, 2.0**64, 1e300, 5e-324, 1e17 + 16]
)
MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)) | st.sampled_from(
    [dt.datetime(2024, 2, 29, 23, 59, 59, 999_999), dt.datetime(1969, 12, 31, 23, 59, 59, 500_000), dt.datetime(1900, 3, 1)]
)
SPAN = ("2023-12-25T12:00:00", "2024-03-03T00:00:01")
COLUMNS: dict[str, tuple[pa.DataType, Any, st.SearchStrategy]] = {
    "real": (pa.float64(), Numeric(-1, 1), EXTREMES | st.floats(-2, 2)),
    "single": (pa.float32(), Numeric(0, 3), st.floats(-1, 4, width=32) | st.just(np.nan)),
    "whole": (pa.int64(), Numeric(0, 9, integer=True), st.integers(-2, 12) | st.integers(-(2**63), 2**63 - 1)),
    "listed number": (pa.int32(), Categorical([1, 2, 3]), st.integers(0, 5)),
    "listed text": (pa.string(), Categorical(LISTED), WORDS),
    "text": (pa.string(), Categorical(), WORDS),
    "parcel": (pa.float64(), Categorical(), PARCELS),
    "truth": (pa.bool_(), Categorical([True, False]), st.booleans()),
    "day": (pa.date32(), Date(), MOMENTS.map(dt.datetime.date)),
    "moment": (pa.timestamp("us"), Date(*SPAN, time=True), MOMENTS),
    "instant": (pa.timestamp("us", "UTC"), Date(time=True), MOMENTS.map(lambda own: own.replace(tzinfo=dt.UTC))),
}
TARGETS = {
    "classes": (pa.string(), Classes(["no", "yes"], name="y"), st.sampled_from(["no", "yes", "maybe", "NO", "no "])),
    "others": (pa.int64(), Classes([3, 1, 2], other=1, name="y"), st.integers(0, 4)),
    "bounded": (pa.float64(), Bounded(-2, 5, name="y"), EXTREMES | st.floats(-3, 6)),
}
NAMES = st.text("aB1_ \"'.;-\\%()é东", min_size=1, max_size=12).filter(lambda name: name == name.strip() and name != "y")


@st.composite
def tables(draw, plain=False):
    """A table with rows of persons and its schema; ``plain`` values are those that a file of text can hold."""
    kinds = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=9))
    kinds = [kind for kind in kinds if not (plain and kind == "parcel")] or ["real"]
    names = draw(st.lists(NAMES, min_size=len(kinds) + 1, max_size=len(kinds) + 1, unique_by=str.lower))
    n_rows, columns = draw(st.integers(0, 16)), {}
    target = TARGETS[draw(st.sampled_from(sorted(TARGETS)))]
    ids = (pa.string(), None, st.sampled_from(["a", "b", "A", "c"]))
    for name, (type_, _, values) in zip([*names, "y"], [*map(COLUMNS.get, kinds), ids, target], strict=True):
        values = PLAIN_WORDS if plain and values is WORDS else values
        drawn = draw(st.lists(st.none() | values if draw(st.booleans()) else values, min_size=n_rows, max_size=n_rows))
        columns[name] = pa.array(drawn, type_, from_pandas=False)
    features = {name: COLUMNS[kind][1] for name, kind in zip(names, kinds, strict=False)}
    return pa.table(columns), Schema(features, target[1]), names[-1]


def in_memory(table: pa.Table, schema: Schema, groups: str | None = None, people: People | None = None) -> Vault:
    """The vault that all others are compared with."""
    ids = None if groups is None else table.column(groups)
    return Vault.seal(table.select([*schema.features]), table.column(schema.target.name), schema, 1, ids, people)


def answers(vault: Vault) -> dict[str, Any]:
    """All that a vault says of its records, opened; codes in an order that does not depend on that of rows."""
    schema = vault.schema
    domain, target = Domain.of(schema, Grid(bins=5)), schema.target
    numbers = [int(place) for place in np.flatnonzero(domain.is_numeric) if domain.derived[place].of == "value"]
    lists = [name for name, part in schema.features.items() if isinstance(part, Categorical)]
    found = {"count": opened(vault.count()), "codes": codes(vault, domain)}
    found |= {f"texts of {name}": opened(vault.count_texts(name)) for name in lists}
    found |= {
        f"around {centre}": opened(vault.count_around(domain, dict.fromkeys(numbers, centre))) for centre in (0.0, 1.5)
    }
    if isinstance(target, Bounded):
        edges = edges_around(0.5, np.ldexp(1.0, np.arange(-30, 40)), target)
        found["targets"] = opened(vault.count_targets(edges))
        found["narrowed"] = codes(vault.narrowed(Bounded(0.1, 1.5, name="y")), domain)
    return found


def codes(vault: Vault, domain: Domain) -> np.ndarray:
    """The codes of all records with that of the target, sorted."""
    counter = vault.encode(domain)
    rows = np.vstack([counter._codes, counter._target_codes])
    return rows[:, np.lexsort(rows)]


def lot() -> People:
    """A lot that draws two rows of each person, always the same."""
    return People(2, Entropy(3))


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for question, answer in expected.items():
        if isinstance(answer, dict):
            assert found[question] == answer, question
        else:
            np.testing.assert_array_equal(found[question], answer, err_msg=question)


def random_splits(domain: Domain, first: int, n_open: int, rng: np.random.Generator) -> tuple[Any, int]:
    """Splits of the nodes from ``first`` as ``descend`` takes them, some of them leaves; and the number of children."""
    features = rng.integers(-1 if first else 0, domain.n_features, n_open)
    n_children = np.where(features >= 0, rng.integers(2, 4, n_open), 0)
    routes = rng.integers(0, np.maximum(n_children, 1)[:, None], (n_open, int(domain.n_codes.max()))).astype(np.uint16)
    first_children = np.where(features >= 0, first + n_open + np.cumsum(n_children) - n_children, -1)
    return (first, features, routes, first_children), int(n_children.sum())
