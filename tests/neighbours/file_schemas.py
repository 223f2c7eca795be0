"""What the columns of a file are declared as, and what comes of reading it so."""

from functools import partial

from tests.neighbours.one_record import FINE, MARK, MARKS, noted, read

from dpforest import Bounded, Categorical, Classes, Date, Numeric, Schema
from dpforest.mechanisms import Entropy
from dpforest.records import doors
from dpforest.records.people import People
from dpforest.records.source import Asked, joined
from dpforest.records.vault import Vault

FEATURES = {"x": Numeric(0, 3), "c": Categorical(["a", "b"]), "k": Categorical([1, 2]), "day": Date()}
SCHEMAS = {
    "features": Schema(FEATURES, MARKS),
    "buckets": Schema({"c": Categorical(), "k": Categorical()}, MARKS),
    "persons": Schema({"x": Numeric(0, 3)}, MARKS),
    "classes": Schema(MARK, Classes(["no", "yes"])),
    "numbered classes": Schema(MARK, Classes([0, 1], other=0)),  # has all records
    "bounded": Schema(MARK, Bounded(0, 2)),
}


def everyone():
    """All rows of a person, so that coins decide nothing."""
    return People(1000, Entropy(0))


def seal(path, name, format=None):
    asked = Asked(SCHEMAS[name], with_target=True, besides=["id"] if name == "persons" else [])
    rows = joined(doors.open_source(path, format).chunks(asked))
    groups = (rows.besides.column("id"), everyone()) if name == "persons" else (None, None)
    return Vault.seal(rows.features, rows.target, SCHEMAS[name], 1, *groups)


def readings(seal, names=tuple(SCHEMAS)):
    """What ``seal`` gives for each of some schemas."""
    return {name: read(partial(seal, name)) for name in names}


def assert_like(after, before, n_odd):
    for name, reading in after.items():
        with noted(name):
            assert before[name].outcome == FINE
            reading.assert_like(before[name], n_odd)
