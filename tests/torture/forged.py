"""Model files that nobody fitted, with a digest that fits."""

import json

import numpy as np
from tests.torture.mutations import entries_of
from tests.torture.samples import classifier

from dpforest.common.archive import packed
from dpforest.model.file import _array_bytes, _digest


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


def forge(path, arrays, change=lambda facts: None):
    """Put other arrays, and a changed header, in the file of a model, with a digest that fits."""
    entries = entries_of(path.read_bytes())
    facts = json.loads(entries.pop("model.json"))
    facts.pop("digest")
    change(facts)
    entries |= {f"{name}.npy": _array_bytes(array) for name, array in arrays.items()}
    facts["digest"] = _digest(facts, entries)
    path.write_bytes(b"".join(packed({"model.json": json.dumps(facts, indent=1).encode(), **entries})))


def chain_file(path, n_nodes, n_codes=200):
    """A model file with a chain of nodes, each with a route of its own."""
    model, arrays = chain_of_nodes(n_nodes, n_codes)
    n_inner = int((arrays["features"] >= 0).sum())
    # Codes go left and right in turn, but for one in each node, so that no two conditions are the same or short.
    arrays["routes"] = np.tile(np.arange(n_codes, dtype="<u2") % 2, (n_inner, 1))
    arrays["routes"][np.arange(n_inner), np.arange(n_inner) % n_codes] ^= 1
    arrays["splits"][arrays["features"] >= 0] = np.arange(n_inner)
    model.save(path)
    forge(path, arrays)
    return path


def star_file(path, n_children):
    """A model file with one split, which sends each of many categories to a child of its own."""
    model = classifier(max_depth=1, n_trees=1, recipe="jagannathan-2009")
    model.save(path)
    place = [*model.schema_.features].index("sex")
    is_root = np.arange(n_children + 1) == 0
    arrays = {
        **{name: np.where(is_root, root, leaf).astype("<i8") for name, (root, leaf) in {
            "trees": (0, 0), "parents": (-1, 0), "levels": (0, 1), "first_children": (1, -1), "features": (place, -1),
            "splits": (0, -1)}.items()},
        "routes": np.arange(n_children, dtype="<u2")[None],
        "variances": np.ones(n_children + 1),
        **dict.fromkeys(("counts", "shares", "votes"), np.full((n_children + 1, 2), 0.5)),
    }  # fmt: skip
    names = [f"c{number}" for number in range(n_children - 2)]
    forge(path, arrays, lambda facts: facts["schema"]["features"]["sex"].update(categories=names))
    return path


def leaf_file(path, n_labels):
    """A model file with a single leaf, which has many labels."""
    model, arrays = chain_of_nodes(1, 200)
    model.save(path)
    arrays |= {"routes": arrays["routes"][:0], "variances": np.ones(1)}
    arrays |= dict.fromkeys(("counts", "shares", "votes"), np.full((1, n_labels), 1 / n_labels))
    names = [f"label {number}" for number in range(n_labels)]
    forge(path, arrays, lambda facts: facts["schema"]["target"].update(labels=names))
    return path
