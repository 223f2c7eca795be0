"""A schema holds public facts only, refuses what makes no sense, and survives every way of copying it."""

import copy
import json
import os
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from tests.cli import hostile

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema
from dpforest.common.jsonable import to_json
from dpforest.errors import DPForestError, SchemaError
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


@pytest.mark.parametrize("kind", [Numeric, Bounded])
@pytest.mark.parametrize(
    "bounds",
    [(1, 1), (2, 1), (float("nan"), 1), (0, float("nan")), (0, float("inf")), (-float("inf"), 0), ("0", "1"), (0, 10**400),
     (2.0**64, None), (None, -(2.0**64)), (False, True), (0, 1j), ([0], [1])],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_bounds_that_are_no_finite_range_are_refused_by_name(kind, bounds):
    with pytest.raises(SchemaError, match=f"{kind.__name__} needs .*lower.*upper"):
        kind(*bounds)


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


@pytest.mark.parametrize("kind", [Categorical, Classes])
@pytest.mark.parametrize(
    ("values", "words"),
    [([], "at least one"), ("abc", "list of values"), (["a", "b", "a"], "twice"), ([1, True], "twice"),
     ([["a"]], "hashable"), (5, "Categorical|Classes"), (None, "Categorical|Classes")],
)  # fmt: skip
def test_lists_of_values_that_make_no_sense_are_refused_with_the_reason(kind, values, words):
    with pytest.raises(SchemaError, match=words):
        kind(values)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *((lambda integer=integer: Numeric(0, 1, integer=integer), "integer") for integer in ("no", "false", 2, None)),
        *((lambda buckets=buckets: Categorical(buckets=buckets), r"buckets=\.\.\.\) must be one of 2, 4")
          for buckets in (0, 1, 3, 512, True, "64", None, 2.5)),
        (lambda: Categorical(["a"], buckets=32), "so there are no buckets"),
        (lambda: Classes(["a", "b"], other="c"), r"other='c'.*not one of the labels"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_of_a_column_is_refused_with_the_reason(make, words):
    with pytest.raises(SchemaError, match=words):
        make()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features": {}}, "mapping"),
        ({"features": [("age", Numeric(0, 1))]}, "mapping"),
        ({"features": {"age": (0, 120)}}, r"'age' must be Numeric\(...\), Categorical"),
        ({"features": {"age": Classes([0, 1])}}, r"'age' must be Numeric\(...\), Categorical"),
        ({"target": None}, r"Classes\(\[...\]\) for classification or Bounded"),
        ({"target": Numeric(0, 1)}, r"Classes\(\[...\]\) for classification or Bounded"),
        ({"target": ["a", "b"]}, r"Classes\(\[...\]\) for classification or Bounded"),
        ({"target": Classes([0, 1], name="age")}, "'age' is declared both"),
        ({"n_rows": -1}, "n_rows"),
        ({"n_rows": 10.0}, "n_rows"),
        ({"n_rows": "10"}, "n_rows"),
        ({"n_rows": True}, "n_rows"),
        ({"features": {1: Numeric(0, 1)}}, "name"),
        ({"target": Classes([0, 1], name=["a"])}, "name"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_schema_that_contradicts_itself_is_refused_with_the_reason(changes, words):
    with pytest.raises(SchemaError, match=words):
        small(**changes)


def test_schema_errors_are_value_errors_of_the_library():
    assert issubclass(SchemaError, DPForestError)
    assert issubclass(SchemaError, ValueError)


def test_values_of_numpy_become_plain_values():
    assert Categorical(np.array([1, 2])).categories == (1, 2)
    assert {type(value) for value in Categorical(np.array([1, 2])).categories} == {int}
    assert type(Classes(np.array(["a", "b"])).labels[0]) is str


def test_one_class_and_one_category_are_enough():
    assert small(features={"c": Categorical(["a"])}, target=Classes([1])).n_features == 1


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
def test_a_schema_survives_files_copies_and_its_own_code_with_types_and_order(title, tmp_path):
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
def test_a_schema_cannot_be_written_into_a_folder_that_is_missing(suffix, tmp_path):
    with pytest.raises(SchemaError, match=rf"missing/s\{suffix}"):
        small().to_file(tmp_path / "missing" / f"s{suffix}")


@pytest.mark.parametrize("suffix", ["", ".yaml", ".txt", ".jso", ".schema"])
def test_other_suffixes_are_refused_both_ways(suffix, tmp_path):
    path = tmp_path / f"s{suffix}"
    with pytest.raises(SchemaError, match=r"\.json or \.toml"):
        small().to_file(path)
    assert not path.exists()
    path.write_text("{}")
    with pytest.raises(SchemaError, match=r"\.json or \.toml"):
        Schema.from_file(path)


def test_the_documented_format_is_read(tmp_path):
    content = plain(n_rows=7)
    content["features"]["sex"] = {"kind": "categorical", "categories": ["m", "f"]}
    content["features"]["age"]["integer"] = True
    content["target"] |= {"name": "income", "other": "b"}
    assert Schema.from_file(written(content, tmp_path)) == Schema(
        {"age": Numeric(0, 120, integer=True), "sex": Categorical(["m", "f"])},
        Classes(["a", "b"], other="b", name="income"),
        n_rows=7,
    )


def test_the_documented_format_is_read_from_toml(tmp_path):
    text = """
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
    kind = "bounded"
    lower = 0
    upper = 30.5
    """
    assert Schema.from_file(written(text, tmp_path, ".toml")) == Schema(
        {"age": Numeric(0, 120, integer=True), "marital-status": Categorical(["a", "b"])},
        Bounded(0, 30.5, name="rings"),
        n_rows=7,
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "'features' and 'target'"),
        ("null", "'features' and 'target'"),
        ({"features": {}}, "'features' and 'target'"),
        (plain(features=[]), "maps column names"),
        (plain(features={}), "mapping"),
        (plain(rows=5), "no entry 'rows'"),
        (plain(n_rows="5"), "n_rows"),
        (plain(n_rows=-5), "n_rows"),
        (plain(target=5), "the target needs a 'kind'"),
        (plain(target={"kind": "numeric", "lower": 0, "upper": 1}), "Classes"),
        (plain(target={"kind": "classes"}), "the target .*missing or unknown"),
        (plain(target={"kind": "bounded", "lower": 1, "upper": 0}), "lower < upper"),
        (plain(target={"kind": "classes", "labels": [["a"]]}), "hashable"),
        (plain(features={"age": 5}), "'age' needs a 'kind'"),
        (plain_feature(kind="number", lower=0, upper=1), "'age' needs a 'kind'"),
        (plain_feature(lower=0, upper=1), "'age' needs a 'kind'"),
        (plain_feature(kind=["numeric"], lower=0, upper=1), "'age' needs a 'kind'"),
        (plain_feature(kind="numeric", lower=0, upper=1, bins=5), "'age' .*missing or unknown.*bins"),
        (plain_feature(kind="numeric", lower="a", upper=1), "finite numbers"),
        (plain_feature(kind="numeric", lower=0, upper=1, integer="false"), "integer"),
        (plain_feature(kind="categorical", categories=5), "Categorical needs"),
        (plain_feature(kind="categorical", categories="ab"), "list of values"),
        (plain_feature(kind="classes", labels=["a"]), "'age' must be"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_file_with_wrong_entries_is_refused_with_the_reason(content, words, tmp_path):
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


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_a_missing_file_and_a_folder_are_refused_by_name(suffix, tmp_path):
    for name in ("missing", "folder"):
        path = tmp_path / f"{name}{suffix}"
        if name == "folder":
            path.mkdir()
        with pytest.raises(SchemaError, match=f"{name}.*cannot be read"):
            Schema.from_file(path)


def test_scikit_learn_clones_an_estimator_with_its_schema():
    model = DPForestClassifier(schema=small(n_rows=3, target=Classes([("a", 1), "b"], other="b")))
    assert clone(model).schema == model.schema


def test_a_schema_cannot_be_changed():
    schema = small()
    with pytest.raises(TypeError):
        schema.features["age"] = Numeric(0, 1)
    with pytest.raises(AttributeError):
        schema.n_rows = 5
    with pytest.raises(AttributeError):
        schema.features["age"].upper = 5


def test_changing_the_mapping_that_was_given_changes_nothing():
    features = {"age": Numeric(0, 120)}
    schema = small(features=features)
    features["sex"] = Categorical(["m"])
    assert list(schema.features) == ["age"]


def shared_schemas():
    folder = os.environ.get("DPFOREST_DATA")
    return sorted(Path(folder).glob("*.schema.json")) if folder else []


@pytest.mark.skipif(not shared_schemas(), reason="DPFOREST_DATA names no folder with tables")
def test_every_shared_schema_is_read_and_survives_both_formats(tmp_path):
    for path in shared_schemas():
        schema, content = Schema.from_file(path), json.loads(path.read_text())
        assert list(schema.features) == list(content["features"]), path.name
        assert schema.target.name == content["target"]["name"], path.name
        for suffix in (".json", ".toml"):
            schema.to_file(tmp_path / f"s{suffix}")
            assert Schema.from_file(tmp_path / f"s{suffix}") == schema, path.name
