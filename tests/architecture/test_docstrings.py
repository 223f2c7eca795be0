"""Examples in docstrings do what they show."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import dpforest

ROOT = Path(dpforest.__file__).parent
SHOWING = [path for path in sorted(ROOT.rglob("*.py")) if ">>> " in path.read_text("utf-8")]


@pytest.mark.parametrize("path", SHOWING, ids=lambda path: path.stem)
def test_examples_give_what_they_show(path):
    module = import_module(".".join(path.relative_to(ROOT.parent).with_suffix("").parts))
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed


def test_some_docstrings_have_examples():
    assert SHOWING
