"""A schema holds public facts only, refuses what makes no sense, and survives every way of copying it."""

import copy
import json
import pickle
import tomllib
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from tests.cli import hostile

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema
from dpforest.common.text import to_json
from dpforest.errors import SchemaError
from dpforest.schema import Format

NAMES = ["", '"""', "a.b.c", "[[a]]", "{a}", "a = 1 # no comment", "\x00\x01\x08\x0c\x1b\x1f", "é\u0301ß", *hostile.TEXTS]


def small(**changes):
    facts = {
        "features": {"age": Numeric(0, 120, integer=True), "sex": Categorical(["Male", "Female"])},
        "target": Classes(["<=50K", ">50K"]),
    }
    return Schema(**facts | changes)


def written(content, folder, suffix=".json"):
    path = folder / f"schema{suffix}"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("n_columns", [2, 40])
def test_a_schema_is_shown_as_the_code_that_makes_it_without_defaults(n_columns):
    features = {
        "age": Numeric(0, 120, integer=True), "sex": Categorical(["Male", 'say "x"']), "any": Numeric(),
        "at most": Numeric(upper=3),
        "by hash": Categorical(buckets=8), "seen": Date("2020-01-01", time=True),
    }  # fmt: skip
    features |= {f"x{index}": Numeric(0, index + 1) for index in range(n_columns)}
    own = Format(separator=";", missing_in={"age": [999]})
    schema = Schema(features, Classes(["no", "yes"], other="no", name="y"), 50, vouched_by="the law", format=own)
    assert eval(repr(schema)) == schema
    assert "source" not in repr(schema)
    assert "encoding" not in repr(schema)
    assert max(map(len, repr(schema).split("\n"))) < 120


def test_a_small_schema_and_its_estimator_are_short():
    schema = Schema({"age": Numeric(0, 120)}, Classes([0, 1]))
    assert repr(schema) == "Schema(features={'age': Numeric(0, 120)}, target=Classes([0, 1]))"
    assert repr(DPForestClassifier(schema)) == f"DPForestClassifier(epsilon=1.0, schema={schema!r})"


@pytest.mark.parametrize(("make", "given"), [(Categorical, ("sun", "rain")), (Classes, ("no", "yes"))])
def test_values_that_are_not_in_a_list_are_refused_with_the_list_to_write(make, given):
    with pytest.raises(SchemaError) as caught:
        make(*given)
    assert str(caught.value).endswith(f"not {given[0]!r}: {make.__name__}([{given[0]!r}, ...]).")


def plain(**changes):
    return {"features": {"age": {"kind": "numeric", "lower": 0, "upper": 120}},
            "target": {"kind": "classes", "labels": ["a", "b"]}} | changes  # fmt: skip


def plain_feature(**entries):
    return plain(features={"age": entries})


NAN, INFINITY, OVERFLOW = float("nan"), float("inf"), 10**400
BOUNDS = [(1, 1), (2, 1), (NAN, 1), (0, NAN), (0, INFINITY), (-INFINITY, 0), ("0", "1"), (0, OVERFLOW), (2.0**64, None),
          (None, -(2.0**64)), (False, True), (0, 1j), ([0], [1])]  # fmt: skip
A_KIND, A_TARGET = r"'age' must be Numeric\(...\), Categorical", r"Classes\(\[...\]\) for classification or Bounded"
SENSELESS = [
    *((kind, given, f"{kind.__name__} needs .*lower.*upper") for kind in (Numeric, Bounded) for given in BOUNDS),
    *((Numeric, (0, 1, integer), "integer") for integer in ("no", "false", 2, None)),
    *((kind, ([],), "at least one") for kind in (Categorical, Classes)),
    *((kind, ("abc",), "list of values") for kind in (Categorical, Classes)),
    *((kind, (given,), "twice") for kind in (Categorical, Classes) for given in (["a", "b", "a"], [1, True])),
    *((kind, ([["a"]],), "hashable") for kind in (Categorical, Classes)),
    *((kind, (given,), kind.__name__) for kind in (Categorical, Classes) for given in (5, None)),
    *((lambda given: Categorical(buckets=given), (given,), r"buckets=\.\.\.\) must be one of 2, 4")
      for given in (0, 1, 3, 512, True, "64", None, 2.5)),
    (lambda: Categorical(["a"], buckets=32), (), "so there are no buckets"),
    (lambda: Classes(["a", "b"], other="c"), (), r"other='c'.*not one of the labels"),
    *((lambda given: small(features=given), (given,), "mapping") for given in ({}, [("age", Numeric(0, 1))])),
    *((lambda given: small(features={"age": given}), (given,), A_KIND) for given in ((0, 120), Classes([0, 1]))),
    *((lambda given: small(target=given), (given,), A_TARGET) for given in (None, Numeric(0, 1), ["a", "b"])),
    *((lambda given: small(n_rows=given), (given,), "n_rows") for given in (-1, 10.0, "10", True)),
    (lambda: small(target=Classes([0, 1], name="age")), (), "'age' is declared both"),
    (lambda: small(features={1: Numeric(0, 1)}), (), "name"),
    (lambda: small(target=Classes([0, 1], name=["a"])), (), "name"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "given", "words"), SENSELESS)
def test_what_makes_no_sense_is_refused_with_the_reason(make, given, words):
    with pytest.raises(SchemaError, match=words):
        make(*given)


@pytest.mark.parametrize("kind", [Numeric, Bounded])
def test_a_bound_that_is_not_given_is_that_of_64_bits(kind):
    assert kind().range == (-(2.0**63), 2.0**63)
    assert not kind().has_bounds
    assert kind(0).range == (0.0, 2.0**63)
    assert kind(upper=3).range == (-(2.0**63), 3.0)
    assert not kind(0).has_bounds
    assert kind(0, 1).range == (0.0, 1.0)
    assert kind(0, 1).has_bounds
    assert "lower" not in kind(upper=3).to_dict()
    assert kind(upper=3).to_dict()["upper"] == 3


def test_values_of_numpy_become_plain_values():
    assert Categorical(np.array([1, 2])).categories == (1, 2)
    assert {type(value) for value in Categorical(np.array([1, 2])).categories} == {int}
    assert type(Classes(np.array(["a", "b"])).labels[0]) is str


def named(name):
    return Schema(
        {name: Numeric(-1.5, 2), name + "2": Categorical([name + "3", name + "4"])},
        Classes([name, name + "5"], other=name, name=name + "6"),
    )


VALUES = [(1, 2, 3), (0.1, 1e300, -2.5), (True, False), ("1", 1, 2.5, False, "true"), (10**30, -(2**63)), ("a", "A", " a")]
NUMPY = [(np.int64(0), np.int64(9)), (np.float64(0), np.float64(9)), (np.float32(0), np.float32(9)), (0, 9, np.True_)]
SURVIVORS = {
    **{f"name {place}": named(name) for place, name in enumerate(NAMES)},
    **{f"values {values}": small(features={"c": Categorical(values)}, target=Classes(values)) for values in VALUES},
    **{f"bounds {bounds!r}": small(features={"a": Numeric(*bounds)}) for bounds in NUMPY},
    **{f"{n} buckets": small(features={"c": Categorical(buckets=n)}) for n in (64, 32, np.int64(256))},
    **{f"{n} rows": small(n_rows=n) for n in (None, 0, 1, 10**12, np.int64(5))},
    **{f"unit {stated}": small(one_row_per_person=stated) for stated in (None, True, "patient")},
    "a number": small(target=Bounded(-0.25, 7, name="price"), n_rows=12),
    "where it came from": small(source="assume-public"),
    "who vouches": small(vouched_by='J. "Doe"\n'),
    "patterns": small(features={"lab_*": Numeric(), "age": Numeric()}),
    "a format": small(
        format=Format(";", "windows-1252", ",", ".", ("-", "?"), {"age": (999, "k.A."), 'na"me': ("-9",)}, "dmy")
    ),
    "a tab": small(format=Format(separator="\t", missing_in={"a = b": ["\\N"]})),
}


@pytest.mark.parametrize("title", SURVIVORS)
def test_a_schema_survives_files_copies_and_its_own_code(title, tmp_path):
    schema = SURVIVORS[title]
    twins = [copy.copy(schema), copy.deepcopy(schema), pickle.loads(pickle.dumps(schema)), eval(repr(schema))]
    for path in (tmp_path / "s.json", tmp_path / "s.toml"):
        schema.to_file(path)
        twins.append(Schema.from_file(path))
    for twin in twins:
        assert twin == schema
        assert to_json(twin.to_dict()) == to_json(schema.to_dict())


@pytest.mark.parametrize("suffix", [".json", ".toml"])
@pytest.mark.parametrize(
    "values",
    [(("a", 1), "b"), (b"a", "b"), (Fraction(1, 3), 1), (float("nan"), 1.0)],
    ids=["tuple", "bytes", "fraction", "nan"],
)
def test_values_that_a_file_cannot_hold_are_refused_and_leave_no_file(values, suffix, tmp_path):
    with pytest.raises(SchemaError):
        small(features={"c": Categorical(values)}).to_file(tmp_path / f"s{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_a_schema_that_cannot_be_written_leaves_the_old_file_as_it_was(suffix, tmp_path):
    path = tmp_path / f"s{suffix}"
    small().to_file(path)
    before = path.read_bytes()
    with pytest.raises(SchemaError):
        # A lone surrogate has no UTF-8 form, which shows only when bytes are written.
        small(features={"\ud800": Numeric(0, 1)}).to_file(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_a_place_that_will_not_do_is_refused_by_name(suffix, tmp_path):
    with pytest.raises(SchemaError, match=rf"missing/s\{suffix}"):
        small().to_file(tmp_path / "missing" / f"s{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    for name in ("missing", "folder"):
        with pytest.raises(SchemaError, match=f"{name}.*cannot be read"):
            Schema.from_file(tmp_path / f"{name}{suffix}")


@pytest.mark.parametrize("suffix", ["", ".yaml", ".txt", ".jso", ".schema"])
def test_other_suffixes_are_refused_both_ways(suffix, tmp_path):
    path = tmp_path / f"s{suffix}"
    with pytest.raises(SchemaError, match=r"\.json or \.toml"):
        small().to_file(path)
    assert not path.exists()
    path.write_text("{}")
    with pytest.raises(SchemaError, match=r"\.json or \.toml"):
        Schema.from_file(path)


DOCUMENTED = """
n_rows = 7
[features.age]
kind = "numeric"
lower = 0
upper = 120
integer = true
[features."marital-status"]
kind = "categorical"
categories = ["a", "b"]
[target]
name = "rings"
"""
CLASSES, RANGE = 'kind = "classes"\nlabels = ["few", "many"]\nother = "many"', 'kind = "bounded"\nlower = 0\nupper = 30.5'


@pytest.mark.parametrize(
    ("text", "target"),
    [(CLASSES, Classes(["few", "many"], other="many", name="rings")), (RANGE, Bounded(0, 30.5, name="rings"))],
)
def test_the_documented_format_is_read_from_both_kinds_of_file(text, target, tmp_path):
    features = {"age": Numeric(0, 120, integer=True), "marital-status": Categorical(["a", "b"])}
    expected = Schema(features, target, n_rows=7)
    assert Schema.from_file(written(DOCUMENTED + text, tmp_path, ".toml")) == expected
    assert Schema.from_file(written(tomllib.loads(DOCUMENTED + text), tmp_path)) == expected


WRONG = {
    "'features' and 'target'": [[], "null", {"features": {}}],
    "maps column names": [plain(features=[])],
    "no entry 'rows'": [plain(rows=5)],
    "n_rows": [plain(n_rows="5"), plain(n_rows=-5)],
    "the target needs a 'kind'": [plain(target=5)],
    "Classes": [plain(target={"kind": "numeric", "lower": 0, "upper": 1})],
    "the target .*missing or unknown": [plain(target={"kind": "classes"})],
    "'age' needs a 'kind'": [plain_feature(kind=kind, lower=0, upper=1) for kind in ("number", None, ["numeric"])],
    "'age' needs": [plain(features={"age": 5}), plain_feature(lower=0, upper=1)],
    "'age' .*missing or unknown.*bins": [plain_feature(kind="numeric", lower=0, upper=1, bins=5)],
    "Categorical needs": [plain_feature(kind="categorical", categories=5)],
    "'age' must be": [plain_feature(kind="classes", labels=["a"])],
}


@pytest.mark.parametrize("words", WRONG)
def test_a_file_with_wrong_entries_is_refused_with_the_reason(words, tmp_path):
    for content in WRONG[words]:
        with pytest.raises(SchemaError, match=words):
            Schema.from_file(written(content, tmp_path))


@pytest.mark.parametrize(
    ("suffix", "content"),
    [(".json", b""), (".json", b"{"), (".json", b"{'a': 1}"), (".json", b"\xff\xfe\x00"), (".json", b'{"a": 1}}'),
     (".json", b"[" * 100_000), (".json", b'{"a":' * 100_000), (".toml", b"= 1"), (".toml", b"a = "),
     (".toml", b"a = 1\na = 2"), (".toml", b"\xff"), (".toml", b"a = " + b"[" * 100_000)],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_a_file_that_cannot_be_parsed_is_refused_by_name(suffix, content, tmp_path):
    path = tmp_path / f"s{suffix}"
    path.write_bytes(content)
    words = rf"schema file .*s\{suffix} is not valid {suffix[1:].upper()}|needs the entries"
    with pytest.raises(SchemaError, match=words):
        Schema.from_file(path)


def test_a_feature_declared_twice_in_json_is_refused(tmp_path):
    text = json.dumps(plain()).replace('"age":', '"age": {"kind": "numeric", "lower": 5, "upper": 6}, "age":', 1)
    with pytest.raises(SchemaError, match="age"):
        Schema.from_file(written(text, tmp_path))


def test_scikit_learn_clones_an_estimator_with_its_schema():
    model = DPForestClassifier(schema=small(n_rows=3, target=Classes([("a", 1), "b"], other="b")))
    assert clone(model).schema == model.schema


def test_a_schema_cannot_be_changed_not_even_by_what_it_was_made_of():
    features = {"age": Numeric(0, 120)}
    schema = small(features=features)
    features["sex"] = Categorical(["m"])
    assert list(schema.features) == ["age"]
    with pytest.raises(TypeError):
        schema.features["age"] = Numeric(0, 1)
    with pytest.raises(AttributeError):
        schema.n_rows = 5
    with pytest.raises(AttributeError):
        schema.features["age"].upper = 5
