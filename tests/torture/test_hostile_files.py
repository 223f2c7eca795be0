"""A file that nobody wrote on purpose is refused or read, in no more time and memory than its size allows."""

import copy
import json
import math
import os
import tracemalloc

import numpy as np
import pytest
from matplotlib import pyplot
from tests.torture import fuzz
from tests.torture.forged import chain_of_nodes, forge, leaf_file, star_file, works
from tests.torture.mutations import inside, places, put
from tests.torture.samples import classifier, rows

from dpforest import Categorical, Classes, Schema, load_model
from dpforest.cli.saved import report
from dpforest.common.text import to_json
from dpforest.errors import DPForestError, ModelFileError, ParameterError, SchemaError
from dpforest.evaluation import evaluate_privately
from dpforest.forest import tree
from dpforest.model import checks as model_checks
from dpforest.model import file as model_file
from dpforest.privacy import ledger
from dpforest.privacy.accountants import make_accountant
from dpforest.schema import MOST_FILE_BYTES

pytestmark = pytest.mark.slow


def test_a_mutated_file_is_refused_or_read_and_nothing_else_happens():
    """``make torture`` tries 10,000 of each kind."""
    for kind, found in fuzz.run(fuzz.KINDS, 50, first_seed=1_000_000).items():
        assert found["findings"] == []
        # Else the refusals would say nothing: some mutations are harmless, most are not.
        assert found["refused"] > 12, kind
        assert found["read"] > 1, kind


# --- readers that are given no ordinary file --------------------------------------------------------------------------


def of_report(option):
    """A function that reads a file which the report of a model is told of."""

    def read(path):
        model = path.parent / "model.dpf"
        classifier(max_depth=1, n_trees=1, recipe="jagannathan-2009").save(model)
        report(model, path.parent / "r.html", **{option: path})

    return read


READERS = {
    "m.dpf": (load_model, ModelFileError),
    "s.toml": (Schema.from_file, SchemaError),
    "s.json": (Schema.from_file, SchemaError),
    "audit": (of_report("audit"), ParameterError),
    "evaluation": (of_report("evaluation"), ParameterError),
    "about.json": (of_report("about"), ParameterError),
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
def test_a_pipe_or_a_device_without_end_is_refused_and_not_waited_for(name, tmp_path):
    read, error = READERS[name]
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/zero"):
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to(place)
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

    refused()  # imports
    assert peak_of(refused) < 10 << 20


@pytest.mark.parametrize("name", ["audit", "evaluation", "about.json", "s.json", "m.dpf"])
def test_a_file_of_lists_in_lists_is_refused(name, tmp_path):
    read, error = READERS[name]
    for levels in (100, 900, 100_000):
        deep = "[" * levels + "]" * levels
        words = f'{{"format": "dpforest-evaluation", "audits": [{deep}], "features": {deep}, "target": 1}}'
        (tmp_path / name).write_text(words)
        with pytest.raises(error):
            read(tmp_path / name)
        assert not (tmp_path / "r.html").exists()


def test_a_schema_of_a_hundred_thousand_names_is_within_the_limit(tmp_path):
    names = [f"a name of some length, number {place}" for place in range(100_000)]
    schema = Schema({"x": Categorical(names)}, Classes(["no", "yes"]))
    for ending in ("json", "toml"):
        schema.to_file(tmp_path / f"s.{ending}")
        assert (tmp_path / f"s.{ending}").stat().st_size < MOST_FILE_BYTES
        assert Schema.from_file(tmp_path / f"s.{ending}") == schema


@pytest.mark.parametrize(
    ("module", "limit", "most", "read_words", "write_words"),
    [
        (model_file, "MOST_HEADER_BYTES", 1000, "header", "larger"),
        (model_checks, "MOST_CHARGES", 3, "charges", "fewer trees or levels"),
    ],
)
def test_what_is_beyond_a_limit_is_neither_read_nor_written(
    tmp_path, monkeypatch, module, limit, most, read_words, write_words
):
    model = classifier(max_depth=2, n_trees=2)
    model.save(tmp_path / "m.dpf")
    monkeypatch.setattr(module, limit, most)
    with pytest.raises(ModelFileError, match=read_words):
        load_model(tmp_path / "m.dpf")
    with pytest.raises(ModelFileError, match=write_words):
        model.save(tmp_path / "again.dpf")
    assert not (tmp_path / "again.dpf").exists()


def test_nodes_that_share_a_wide_route_are_refused_without_a_copy_for_each(tmp_path):
    model, arrays = chain_of_nodes(4001, 60_000)
    model.save(tmp_path / "m.dpf")
    forge(tmp_path / "m.dpf", arrays)

    def read():
        with pytest.raises(ModelFileError, match="do not fit together"):
            load_model(tmp_path / "m.dpf")

    # Each node with a copy of its route would take 240 MB.
    assert peak_of(read) < 10 * (tmp_path / "m.dpf").stat().st_size


NIGHT = pytest.mark.night


IN_BLOCKS = {"report", "effects"}  # memory grows up to a limit, and then no more: only large files show it


@pytest.mark.parametrize(("make", "left_out"), [(star_file, IN_BLOCKS), (leaf_file, set())], ids=["a star", "a leaf"])
def test_what_is_made_of_a_file_of_twice_the_size_takes_twice_the_memory(tmp_path, make, left_out):
    def peaks(size):
        made = works(load_model(make(tmp_path / "m.dpf", size)), tmp_path / "r.html")
        return {name: peak_of(work) for name, work in made.items() if name not in left_out}

    peaks(300)  # imports
    before, after = peaks(500), peaks(1000)
    pyplot.close("all")
    assert [name for name, peak in after.items() if peak > 2.2 * before[name] + (1 << 19)] == []


def test_rules_of_some_trees_of_a_large_forest_can_be_had(monkeypatch):
    forest = classifier(max_depth=2, n_trees=6, recipe="jagannathan-2009").forest_
    length = sum(len(condition) for rule in forest.rules() for condition in rule["conditions"])
    monkeypatch.setattr(tree, "MOST_CHARACTERS_OF_RULES", length - 1)
    with pytest.raises(ParameterError, match=r"forest\.only"):
        forest.rules()
    assert forest.only(np.arange(6) < 2).rules()


@pytest.mark.parametrize("n_books", [8, 9, 3000])
def test_a_ledger_has_few_books(tmp_path, monkeypatch, n_books):
    """Each book takes a search for its rho."""
    path = tmp_path / "m.dpf"
    classifier(max_depth=1, n_trees=1, delta=1e-6, recipe="consul-2020").save(path)

    def more(facts):
        book = facts["ledger"]["books"][-1]
        facts["ledger"]["books"] = [book | {"epsilon": 0.5 + place / 10_000} for place in range(n_books)]

    forge(path, {}, more)
    made = []
    monkeypatch.setattr(ledger, "make_accountant", lambda *facts: made.append(facts) or make_accountant(*facts))
    if n_books == 8:
        load_model(path)
    else:
        with pytest.raises(ModelFileError, match="at most 8 books"):
            load_model(path)
        assert not made


# --- numbers ----------------------------------------------------------------------------------------------------------

NUMBERS = (math.nan, math.inf, -math.inf, 1e308, 5e-324, 10**400, -1, None, "inf", "nan", "half \ud800")
ENTRY = {
    "recipe": "jagannathan-2009", "variant": "private", "verdict": "nothing found", "epsilon": 1.0, "delta": 0.0,
    "replay": {"findings": [{"words": "x"}], "n_pairs": 3, "closest": 0.3},
    "lower_bound": {"exceeds": True, "words": "w", "claimed": 1.0, "epsilon": 0.3, "confidence": 0.95, "n_tested": 100},
}  # fmt: skip


def plain_places(content):
    """The path of each plain value, of alike entries of a list those of the first."""
    first = [path for path in places(content) if not any(isinstance(key, int) and key > 0 for key in path)]
    return [path for path in first if not isinstance(inside(content, path), dict | list)]


@pytest.mark.parametrize("what", ["audit", "evaluation", "header"])
@pytest.mark.parametrize("share", [5, pytest.param(1, marks=NIGHT)], ids=["some", "all"])
def test_any_number_of_a_file_is_shown_or_refused(tmp_path, what, share):
    path, page = tmp_path / "m.dpf", tmp_path / "r.html"
    model = classifier(max_depth=1, n_trees=1, recipe="jagannathan-2009")
    model.save(path)
    content, saved = {"audits": [ENTRY]}, path.read_bytes()
    if what == "evaluation":
        content = json.loads(to_json(evaluate_privately(model, rows(), ["no", "yes"] * 25, 1.0).to_dict()))
    elif what == "header":
        content = {}
        forge(path, {}, content.update)
    n_refused = 0
    for turn, place in enumerate(plain_places(content)):
        for number in NUMBERS[turn % share :: share]:
            changed = copy.deepcopy(content)
            put(changed, place, number)
            try:
                if what == "header":
                    path.write_bytes(saved)
                    forge(path, {}, lambda facts, changed=changed: facts.update(changed))
                    load_model(path).save_report(page)
                else:
                    model.save_report(page, **{what: changed})
            except DPForestError:
                n_refused += 1
            except ValueError:
                assert what == "header"  # JSON has no such number, so nobody can forge it
                assert isinstance(number, float)
    assert n_refused
