"""Sealed values show nothing of what they hold, and only the gate opens them."""

import ast
import copy
import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import dpforest
from dpforest.errors import DPForestError, SealedError
from dpforest.privacy.sealed import Sealed

SECRET = 8675309
REFUSED = {
    "array": np.asarray,
    "array-of-objects": lambda sealed: np.array(sealed, dtype=object),
    "sum": np.sum,
    "iteration": iter,
    "list": list,
    "unpacking": lambda sealed: [*sealed],
    "length": len,
    "bool": bool,
    "equality": lambda sealed: sealed == sealed,
    "inequality": lambda sealed: sealed != np.array([SECRET]),
    "less": lambda sealed: sealed < SECRET,
    "greater": lambda sealed: sealed >= SECRET,
    "hash": hash,
    "float": float,
    "int": int,
    "index": lambda sealed: [0][sealed],
    "item": lambda sealed: sealed[0],
    "slice": lambda sealed: sealed[:],
    "contains": lambda sealed: SECRET in sealed,
    "plus": lambda sealed: sealed + 1,
    "array-plus": lambda sealed: np.zeros(1) + sealed,
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "json": json.dumps,
    "vars": vars,
    "format-spec": lambda sealed: f"{sealed:.3f}",
    "save": lambda sealed: np.save(io.BytesIO(), sealed),
}


@pytest.mark.parametrize("use", REFUSED)
def test_a_sealed_value_refuses_to_be_read_as(use):
    with pytest.raises(TypeError) as caught:
        REFUSED[use](Sealed(np.array([SECRET])))
    assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize("use", REFUSED)
def test_a_sealed_number_refuses_to_be_read_as(use):
    with pytest.raises(TypeError) as caught:
        REFUSED[use](Sealed(SECRET))
    assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize("show", [repr, str, "{}".format, "%s".__mod__, lambda s: repr([s]), lambda s: f"{s!r:>40}"])
def test_a_sealed_value_prints_without_its_content(show):
    assert show(Sealed(np.array([SECRET]))).strip(" []") == "Sealed(...)"


def test_the_error_says_how_to_release_and_belongs_to_the_library():
    with pytest.raises(SealedError, match=r"Gate\.select or Gate\.add_noise"):
        len(Sealed([SECRET]))
    assert issubclass(SealedError, DPForestError)


def test_map_transforms_without_opening():
    seen = []
    mapped = Sealed(np.array([1, 2, 3])).map(lambda array: array * 10)
    assert isinstance(mapped, Sealed)
    mapped.map(seen.append)
    assert seen[0].tolist() == [10, 20, 30]


def test_sealed_arrays_are_joined_in_order_without_opening():
    joined = Sealed.concatenate([Sealed(np.array([[1], [2]])), Sealed(np.array([[3]]))])
    seen = []
    joined.map(seen.append)
    assert isinstance(joined, Sealed)
    assert seen[0].tolist() == [[1], [2], [3]]


def test_a_sealed_value_takes_no_attributes():
    with pytest.raises(AttributeError):
        Sealed(SECRET).note = "x"


def test_only_the_gate_and_sealed_values_themselves_touch_what_is_inside():
    root = Path(dpforest.__file__).parent
    openers = {str(path.relative_to(root)) for path in root.rglob("*.py") if "_value" in _attributes(path)}
    assert openers == {"privacy/gate.py", "privacy/sealed.py"}


def _attributes(path: Path) -> set[str]:
    """Names used as attributes or as texts, so that getattr(sealed, "_value") is found too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return names | {value for value in constants if isinstance(value, str)}
