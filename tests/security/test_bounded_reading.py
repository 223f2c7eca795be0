"""Reading a file takes no more time and memory than its size allows, and never waits for what is no file."""

import json
import os
import tracemalloc

import numpy as np
import pytest
from tests.torture.mutations import entries_of
from tests.torture.samples import classifier

from dpforest import Categorical, Classes, Schema, load_model, model_file
from dpforest.archive import packed
from dpforest.errors import DPForestError, ModelFileError, SchemaError
from dpforest.model_file import _array_bytes, _digest
from dpforest.schema import MOST_FILE_BYTES

READERS = {
    "m.dpf": (load_model, ModelFileError),
    "s.toml": (Schema.from_file, SchemaError),
    "s.json": (Schema.from_file, SchemaError),
}


def peak_of(work):
    """Bytes that were in use at most, beyond those before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_and_not_waited_for(name, tmp_path):
    read, error = READERS[name]
    os.mkfifo(tmp_path / name)
    with pytest.raises(error, match="no ordinary file"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_a_device_without_end_is_refused(name, tmp_path):
    read, error = READERS[name]
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(error, match="no ordinary file"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_a_file_beyond_the_limit_is_refused_unread(name, tmp_path):
    read, error = READERS[name]
    with open(tmp_path / name, "wb") as file:
        file.truncate(model_file.MOST_BYTES + 1)  # takes no room on the disk

    def refused():
        with pytest.raises(error, match="larger than"):
            read(tmp_path / name)

    assert peak_of(refused) < 10 << 20


def test_a_schema_of_a_hundred_thousand_names_is_within_the_limit(tmp_path):
    names = [f"a name of some length, number {place}" for place in range(100_000)]
    schema = Schema({"x": Categorical(names)}, Classes(["no", "yes"]))
    for ending in ("json", "toml"):
        schema.to_file(tmp_path / f"s.{ending}")
        assert (tmp_path / f"s.{ending}").stat().st_size < MOST_FILE_BYTES
        assert Schema.from_file(tmp_path / f"s.{ending}") == schema


def test_a_header_beyond_its_limit_is_neither_read_nor_written(tmp_path, monkeypatch):
    model = classifier(max_depth=1)
    model.save(tmp_path / "m.dpf")
    monkeypatch.setattr(model_file, "MOST_HEADER_BYTES", 1000)
    with pytest.raises(ModelFileError, match="header"):
        load_model(tmp_path / "m.dpf")
    with pytest.raises(ModelFileError, match="larger"):
        model.save(tmp_path / "again.dpf")
    assert not (tmp_path / "again.dpf").exists()


def chain_of_nodes(n_nodes, n_codes):
    """A forged model: a long chain of nodes that all share one wide route, small in the file."""
    model = classifier(max_depth=1, n_trees=1, recipe="jagannathan-2009")
    inner = np.arange(n_nodes - 1) // 2 * 2
    arrays = {
        "trees": np.zeros(n_nodes, dtype="<i8"),
        "parents": np.concatenate([[-1], inner]).astype("<i8"),
        "levels": np.concatenate([[0], inner // 2 + 1]).astype("<i8"),
        "first_children": np.where(np.arange(n_nodes) % 2, -1, np.arange(n_nodes) + 1).astype("<i8"),
        "features": np.where(np.arange(n_nodes) % 2, -1, 0).astype("<i8"),
        "splits": np.where(np.arange(n_nodes) % 2, -1, 0).astype("<i8"),
        "routes": np.zeros((1, n_codes), dtype="<u2"),
        "variances": np.zeros(n_nodes),
    }
    for name in ("first_children", "features", "splits"):
        arrays[name][-1] = -1
    for name in ("counts", "shares", "votes"):
        arrays[name] = np.full((n_nodes, 2), 0.5)
    return model, arrays


def test_nodes_that_share_a_wide_route_take_no_more_memory_than_the_file(tmp_path):
    model, arrays = chain_of_nodes(4001, 60_000)
    model.save(tmp_path / "m.dpf")
    entries = entries_of((tmp_path / "m.dpf").read_bytes())
    facts = json.loads(entries.pop("model.json"))
    facts.pop("digest")
    entries |= {f"{name}.npy": _array_bytes(array) for name, array in arrays.items()}
    facts["digest"] = _digest(facts, entries)
    content = b"".join(packed({"model.json": json.dumps(facts, indent=1).encode(), **entries}))
    (tmp_path / "m.dpf").write_bytes(content)

    def read():
        try:
            load_model(tmp_path / "m.dpf")
        except DPForestError:
            return

    # Each node with a copy of its route would take 240 MB.
    assert peak_of(read) < 10 * len(content)
