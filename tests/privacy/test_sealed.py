"""Sealed values show nothing of what they hold, and only the gate opens them."""

import ast
import copy
import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.support.encoded import opened

import dpforest
from dpforest.errors import DPForestError, SealedError
from dpforest.privacy.sealed import Sealed
from dpforest.records import vault

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
def test_a_sealed_array_or_number_refuses_to_be_read_as(use):
    for held in (np.array([SECRET]), SECRET):
        with pytest.raises(TypeError) as caught:
            REFUSED[use](Sealed(held))
        assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize("show", [repr, str, "{}".format, "%s".__mod__, lambda s: repr([s]), lambda s: f"{s!r:>40}"])
def test_a_sealed_value_prints_without_its_content(show):
    assert show(Sealed(np.array([SECRET]))).strip(" []") == "Sealed(...)"


def test_the_error_says_how_to_release_and_belongs_to_the_library():
    with pytest.raises(SealedError, match=r"Gate\.select or Gate\.add_noise"):
        len(Sealed([SECRET]))
    assert issubclass(SealedError, DPForestError)


def test_map_and_concatenate_transform_without_opening():
    mapped = Sealed(np.array([1, 2, 3])).map(lambda array: array * 10)
    joined = Sealed.concatenate([mapped, Sealed(np.array([3]))])
    assert {type(mapped), type(joined)} == {Sealed}
    assert opened(joined).tolist() == [10, 20, 30, 3]


def test_a_sealed_value_takes_no_attributes():
    with pytest.raises(AttributeError):
        Sealed(SECRET).note = "x"


ROOT = Path(dpforest.__file__).parent
SOURCES = {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def test_only_the_gate_and_sealed_values_touch_what_is_inside_and_plain_counts_stay_where_the_rows_are():
    words = {name: _attributes(tree) for name, tree in SOURCES.items()}
    inside = {name for name, own in words.items() if "_value" in own}
    assert inside == {"privacy/gate.py", "privacy/sealed.py", "published/form.py"}  # printed algorithms open rows
    # What counts rows in the clear, and who may call it.
    plain = {name for name in vars(vault) if name.startswith("tally")}
    askers = {name for name, tree in SOURCES.items() if plain & {getattr(node, "id", "") for node in ast.walk(tree)}}
    assert "records/vault.py" in askers
    assert all(name.startswith("records/") for name in askers)


def _attributes(tree: ast.AST) -> set[str]:
    """Names used as attributes or as texts, so that getattr(sealed, "_value") is found too."""
    found = (getattr(node, "attr", getattr(node, "value", None)) for node in ast.walk(tree))
    return {word for word in found if isinstance(word, str)}


# What a function may be called on the way through ``map`` and still only compute.
COMPUTING = {"sum", "stack", "partial"}


def kept_by_map(tree: ast.AST) -> list[str]:
    """Arguments of ``map`` that could keep what they see: anything but a function of a module, filled in or not, and a
    lambda that binds nothing and calls nothing but what computes."""
    functions = {node.name for node in getattr(tree, "body", []) if isinstance(node, ast.FunctionDef)}
    functions |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    given = [
        call.args[0] for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "map" and call.args
    ]
    return [ast.unparse(argument) for argument in given if not _only_computes(argument, functions)]


def _only_computes(argument: ast.expr, functions: set[str]) -> bool:
    if isinstance(argument, ast.Name):
        return argument.id in functions
    if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Name) and argument.func.id == "partial":
        return _only_computes(argument.args[0], functions)
    if not isinstance(argument, ast.Lambda):
        return False
    inside = list(ast.walk(argument.body))
    called = {getattr(node.func, "attr", getattr(node.func, "id", "")) for node in inside if isinstance(node, ast.Call)}
    return called <= COMPUTING and not any(isinstance(node, ast.NamedExpr) for node in inside)


# Threads and a column of a table: what is mapped there is not sealed.
NOT_SEALED = {
    "datasets.py": ["{True: 'yes', False: 'no'}"],
}


def test_no_function_that_is_given_to_map_keeps_what_it_sees():
    assert {name: kept for name, tree in SOURCES.items() if (kept := kept_by_map(tree))} == NOT_SEALED


@pytest.mark.parametrize(
    "code",
    [
        "seen = []; counts.map(seen.append)",
        "counts.map(lambda value: seen.append(value))",
        "counts.map(lambda value: (kept := value))",
        "counts.map(print)",
        "counts.map(lambda value: print(value))",
        "def ask(counts):\n    def keep(value): seen.append(value)\n    counts.map(keep)",
        "counts.map(partial(setattr, place, 'kept'))",
    ],
)
def test_a_function_that_keeps_what_it_sees_is_found(code):
    assert kept_by_map(ast.parse(code))
