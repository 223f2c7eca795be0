"""A model file gives back the same model, holds no code, and is refused when it is damaged, foreign or hostile."""

import io
import json
import os
import zipfile
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.torture.mutations import entries_of

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, load_model
from dpforest.common.files import packed
from dpforest.errors import ChangedModelWarning, ModelFileError
from dpforest.model.file import _array_bytes, _digest
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.events import Charge, Mechanism, Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.show.report.content import report_content

INF = float("inf")
FEATURES = {"age": Numeric(0, 100), "sex": Categorical(["m", "f"])}


def table(n_rows=200):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.uniform(0, 100, n_rows), "sex": rng.choice(["m", "f"], n_rows)})


X = table()
SEEN_ONCE = pd.DataFrame({"age": [np.nan, -5, 500, 50], "sex": [None, "?", "m", "f"]})


@cache
def classifier(labels=("no", "yes"), **parameters):
    y = np.empty(len(X), dtype=object)
    y[:] = [labels[int(age * len(labels) / 100)] for age in X["age"]]
    return DPForestClassifier(Schema(FEATURES, Classes(labels)), **parameters).fit(X, y)


@cache
def regressor(**parameters):
    return DPForestRegressor(Schema(FEATURES, Bounded(-1, 101)), **parameters).fit(X, X["age"])


def saved(model, folder, name="model.dpf"):
    model.save(folder / name)
    return folder / name


def same(model, twin):
    """Whether two models agree in all that they say."""
    both = pd.concat([X, SEEN_ONCE])

    def said(each):
        shares = each.predict_proba(both).tolist() if isinstance(each, DPForestClassifier) else None
        facts = each.privacy_, each.ledger_, each.schema_, each.forest_.rules(), each.n_features_in_
        return type(each), each.predict(both).tolist(), shares, each.feature_importances_.tolist(), *facts

    return said(model) == said(twin)


MODELS = {
    "classifier": classifier,
    "regressor": regressor,
    "classifier without noise": lambda: classifier(epsilon=INF),
    "regressor without noise": lambda: regressor(epsilon=INF),
    "classifier zCDP": lambda: classifier(delta=1e-6),
    "regressor zCDP": lambda: regressor(delta=1e-6),
    "seeded": lambda: classifier(random_state=3),
    "seeded by a generator": lambda: regressor.__wrapped__(random_state=np.random.RandomState(3)),
    "many trees": lambda: classifier(n_trees=9, max_depth=2, n_jobs=2),
    "assume-public": lambda: DPForestClassifier("assume-public").fit(X, X["age"] > 50),
    "numpy table": lambda: DPForestClassifier(Schema({"a": Numeric(0, 1)}, Classes([0, 1]))).fit(np.eye(1), [1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_is_the_saved_one_and_its_file_holds_json_and_plain_arrays_only(name, tmp_path):
    model = MODELS[name]()
    path = saved(model, tmp_path)
    if name == "numpy table":
        twin = load_model(path)
        assert not hasattr(twin, "feature_names_in_")
        assert (twin.predict_proba(np.eye(1)) == model.predict_proba(np.eye(1))).all()
    else:
        assert same(model, load_model(path))
    for part, blob in entries_of(path.read_bytes()).items():
        if part.endswith(".json"):
            json.loads(blob)
        else:
            assert not np.load(io.BytesIO(blob), allow_pickle=False).dtype.hasobject


def test_parameters_survive_a_file_but_a_seed_which_breaks_the_promise(tmp_path):
    model = classifier(epsilon=0.5, delta=1e-6, n_trees=3, max_depth=2, n_jobs=2)
    assert load_model(saved(model, tmp_path)).get_params() == model.get_params()
    assert load_model(saved(classifier(epsilon=INF), tmp_path)).epsilon == INF
    assert load_model(saved(classifier(epsilon=np.float64(2), max_depth=np.int64(2)), tmp_path)).max_depth == 2
    twin = load_model(saved(classifier(random_state=3), tmp_path))
    assert twin.random_state is None
    assert not twin.privacy_.holds


LABELS = {
    "bool": (True, False),
    "int": (3, 1, 2),
    "float": (0.5, 1.5),
    "text": ("b", "a", "", "😀", '"\n\x00'),
    "none": ("a", None),
    "tuple": (("a", 1), ("b", (2, None)), ()),
    "mixed": (1, "1", ("1",), 2.5, None),
    "large": (10**30, -(2**63)),
    "words of the format": ("(tuple)", "inf", "NaN", "null"),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_survive_a_file_with_their_types(labels, tmp_path):
    model = classifier(labels, recipe="jagannathan-2009", max_depth=2)
    twin = load_model(saved(model, tmp_path))
    assert same(model, twin)
    assert twin.classes_.tolist() == list(labels)
    assert [type(label) for label in twin.classes_.tolist()] == [type(label) for label in labels]


def test_labels_that_a_file_cannot_hold_are_refused_and_leave_no_file(tmp_path):
    for labels in ((b"a", b"b"), (frozenset({1}), 2), (float("nan"), 1.0), (INF, 1.0)):
        with pytest.raises(ModelFileError, match="labels"):
            classifier(labels).save(tmp_path / "model.dpf")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["(tuple)", "", "a.b", '"', "\n", "😀", "\u202eabc", "model.json"])
@pytest.mark.parametrize("number", [np.int64, np.float32])
def test_hostile_names_and_bounds_of_numpy_survive_a_file(name, number, tmp_path):
    schema = Schema({name: Numeric(number(0), number(100))}, Classes([0, 1], name=name + "2"))
    model = DPForestClassifier(schema).fit(X[["age"]].set_axis([name], axis=1), X["age"] > 50)
    twin = load_model(saved(model, tmp_path))
    assert twin.schema_ == schema
    assert twin.forest_.rules() == model.forest_.rules()


@pytest.mark.parametrize("make", [classifier, regressor])
def test_the_same_model_gives_the_same_bytes(make, tmp_path):
    first = saved(make(), tmp_path).read_bytes()
    twin = load_model(tmp_path / "model.dpf")
    assert [saved(model, tmp_path, "again.dpf").read_bytes() for model in (make(), twin)] == [first, first]


@pytest.fixture(scope="module")
def unbounded():
    return DPForestRegressor(Schema(FEATURES, Bounded()), epsilon=50.0).fit(X, 3 * X["age"] + 7)


def test_the_released_range_of_a_target_without_bounds_survives_a_file(tmp_path, unbounded):
    model, loaded = unbounded, load_model(saved(unbounded, tmp_path))
    assert loaded.forest_.target == model.forest_.target
    assert loaded.forest_.target.has_bounds
    assert loaded.schema_.target == Bounded()
    assert loaded.predict(X).tolist() == model.predict(X).tolist()


ENDS = [[5, 5], [6, 5], [0], [0, 1, 2], ["0", "1"], [0, 1e300], [-1e300, 0], [None, 1], [False, True], 7, {}]


def test_a_range_of_the_target_that_no_fit_released_is_refused(tmp_path, unbounded):
    for ends in ENDS:
        assert refused(forge(tmp_path, model=unbounded, header=changed(["target_range"], ends))), ends
    assert refused(forge(tmp_path, header=changed(["target_range"], [0, 1])))  # of a class


def test_a_file_whose_ledger_is_in_words_is_read_shown_and_written_as_it_was(tmp_path):
    # Written before charges were values.
    path = Path(__file__).parent / "models" / "earlier.dpf"
    header = json.loads(entries_of(path.read_bytes())["model.json"])
    model = load_model(path)
    assert model.trained_on_ is None
    assert model.ledger_.spent == model.privacy_.epsilon == header["ledger"]["spent"]
    assert report_content(model)["making"]["digest"] == header["digest"]
    assert saved(model, tmp_path).read_bytes() == path.read_bytes()
    trees, judging = (part.children for part in model.ledger_.root.children[0].children)
    assert trees[0].purpose == Purpose("disjoint trees", n_trees=4)
    assert [charge.purpose for charge in trees[0].children[0].children] == [
        Purpose("splits", level=0), Purpose("splits", level=1), Purpose("leaves"),
    ]  # fmt: skip
    assert [charge.purpose for charge in judging] == [
        *(Purpose("drop tree", subset=1, round=index) for index in (1, 2, 3)), Purpose("choose ensemble", subset=1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "purpose"),
    [
        ("number of rows", Purpose("number of rows")),
        ("first look: pairs", Purpose("first look", "pairs")),
        ("splits of level 12: class means", Purpose("splits", "class means", level=12)),
        ("counts of level 0", Purpose("counts", level=0)),
        ("tree 3", Purpose("tree", tree=3)),
        ("each tree", Purpose("each tree")),
        # Words of somebody's own stay as they are.
        ("splits of level 007", Purpose("splits of level 007")),
        ("phase 3 of level 2", Purpose("phase 3 of level 2")),
        ("tree " + "9" * 5000, Purpose("tree " + "9" * 5000)),
    ],
    ids=str,
)
def test_labels_of_earlier_versions_are_read_and_shown_again(label, purpose):
    charge = {"charge": label, "mechanism": "geometric", "amount": 0.5}
    root = {"scope": "fit", "kind": "sequential", "copies": 1, "children": [charge]}
    content = {"epsilon": 1.0, "delta": 0.0, "books": [{"epsilon": 1.0, "delta": 0.0, "unit": "epsilon", "root": root}]}
    (found,) = Ledger.from_dict(content).root.children
    assert (found.purpose, found.label) == (purpose, label)
    ledger = Ledger(make_accountant(1.0, 0.0))  # where words are given for a purpose they stay words
    ledger.charge(label, "geometric", 0.5)
    assert Ledger.from_json(ledger.to_json()).root.children[0].purpose == Purpose(label)


def test_an_object_array_in_place_of_numbers_is_refused_unread(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    trap = np.empty(1, dtype=object)
    trap[0] = Trap()
    blob = io.BytesIO()
    np.save(blob, trap, allow_pickle=True)
    assert refused(forge(tmp_path, blobs={"votes": blob.getvalue()}))
    assert not (tmp_path / "sprung").exists()


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    model = classifier(max_depth=1)
    return model, saved(model, tmp_path_factory.mktemp("small")).read_bytes()


def flipped(content, rng, places):
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= int(rng.integers(1, 256))
        yield bytes(damaged)


DAMAGES = {
    "flipped bytes": lambda content, rng: flipped(content, rng, range(0, len(content), 11)),
    "too short": lambda content, rng: (content[:length] for length in rng.choice(len(content), 200, replace=False)),
    "a stretch of zeros": lambda content, rng: (
        content[:start] + bytes(64) + content[start + 64 :] for start in range(0, len(content) - 64, 512)
    ),
    "bytes before or behind": lambda content, rng: (
        both for more in (b"\0", b"PK", bytes(1000)) for both in (more + content, content + more)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused_wherever_the_damage_is(small_file, name, tmp_path):
    path, content = tmp_path / "m.dpf", small_file[1]
    for place, damaged in enumerate(DAMAGES[name](content, np.random.default_rng(0))):
        path.write_bytes(damaged)
        assert damaged == content or refused(path), place


def refused(path):
    """Whether the file is refused with an error that names it or its arrays."""
    with pytest.raises(ModelFileError, match=r"model|read|file"):
        load_model(path)
    return True


def archive_of(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def zip_of_text(buffer):
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("hello.txt", "hello")


FOREIGN = {
    "empty": b"", "zeros": b"\0" * 1000, "start of a zip": b"PK\x03\x04", "empty zip": b"PK\x05\x06" + bytes(18),
    "json": b"{}", "random": np.random.default_rng(0).bytes(5000), "another zip": archive_of(zip_of_text),
    "pickle": b"\x80\x04N.", "numpy archive": archive_of(lambda buffer: np.savez(buffer, votes=np.zeros(3))),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_a_folder_and_a_missing_one_are_refused(name, tmp_path):
    (tmp_path / "m.dpf").write_bytes(FOREIGN[name])
    for path in (tmp_path / "m.dpf", tmp_path, tmp_path / "missing.dpf", str(tmp_path / "missing" / "m.dpf")):
        assert refused(path)


def forge(folder, *, model=None, arrays=None, blobs=None, header=None, method=zipfile.ZIP_STORED, extra=()):
    """A file with some arrays or header entries replaced, and the digest that goes with them."""
    path = saved(model or classifier(max_depth=2), folder)
    content = entries_of(path.read_bytes())
    facts = json.loads(content.pop("model.json"))
    for name, change in (arrays or {}).items():
        content[f"{name}.npy"] = _array_bytes(change(np.load(io.BytesIO(content[f"{name}.npy"]))))
    content |= {f"{name}.npy": blob for name, blob in (blobs or {}).items()}
    facts["digest"] = ""
    text = header(facts) if header else facts
    if isinstance(text, dict) and text.get("digest") == "":
        text["digest"] = _digest({name: value for name, value in text.items() if name != "digest"}, content)
    text = text if isinstance(text, str) else json.dumps(text, indent=1)
    if method == zipfile.ZIP_STORED and not extra:
        path.write_bytes(packed({"model.json": text.encode(), **content}))
        return path
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, blob in [("model.json", text), *content.items(), *extra]:
            archive.writestr(name, blob)
    return path


def test_a_forged_file_with_nothing_changed_is_read(tmp_path):
    # Else the refusals below would say nothing.
    assert isinstance(load_model(forge(tmp_path)), DPForestClassifier)
    assert isinstance(load_model(forge(tmp_path, arrays={"votes": lambda a: a[:, ::-1]})), DPForestClassifier)


def at(place, value):
    def change(array):
        array = array.copy()
        array[place] = value
        return array

    return change


def huge_array():
    """The start of an array that claims to have 2**57 items."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (1 << 57,)})
    return buffer.getvalue() + bytes(8)


LARGEST = np.iinfo(np.int64).max
HOSTILE_ARRAYS = {
    "child outside": ("first_children", at(0, 1000)),
    "child so far outside that sums wrap around": ("first_children", at(0, LARGEST)),
    "child of itself": ("first_children", at(0, 0)),
    "child above": ("first_children", at(1, 0)),
    "feature outside": ("features", at(0, 2)),
    "feature below": ("features", at(0, -7)),
    "split outside": ("splits", at(0, 99)),
    "split below": ("splits", at(0, -1)),
    "route outside": ("routes", at((0, 3), 5000)),
    "route that wraps around": ("routes", lambda a: at((0, 3), 2**64 - 9)(a.astype(np.uint64))),
    "too few codes": ("routes", lambda a: a[:, :2]),
    "no routes": ("routes", lambda a: a[:0]),
    "routes in one dimension": ("routes", np.ravel),
    "parent outside": ("parents", at(2, 1000)),
    "parent below": ("parents", at(2, -5)),
    "parent of itself": ("parents", at(2, 2)),
    "no root": ("parents", at(0, 0)),
    "levels out of order": ("levels", at(0, 9)),
    "negative levels": ("levels", lambda a: a - 1),
    "too few votes": ("votes", lambda a: a[:-1]),
    "votes for too few classes": ("votes", lambda a: a[:, :1]),
    "votes that are no numbers": ("votes", lambda a: a * np.nan),
    **{f"too few {name}": (name, lambda a: a[:-1]) for name in ("counts", "shares", "variances")},
    "no nodes": ("trees", lambda a: a[:0]),
    **{
        f"{name} in two dimensions": (name, lambda a: a[:, None])
        for name in ("trees", "first_children", "features", "splits", "levels", "variances", "cuts")
    },
    "cuts of too few features": ("n_cuts", lambda a: a[:1]),
    "negative numbers of cuts": ("n_cuts", lambda a: -a - 1),
    "more cuts announced than there are": ("n_cuts", lambda a: a + 100),
    "fewer cuts announced than there are": ("n_cuts", lambda a: a // 2),
    "cuts that are no numbers": ("cuts", lambda a: a * np.nan),
    "cuts out of order": ("cuts", lambda a: a[::-1]),
    "floats as children": ("first_children", lambda a: a.astype(float)),
    "complex votes": ("votes", lambda a: a.astype(complex)),
    "text as votes": ("votes", lambda a: a.astype(str)),
    "votes of 128 bits": ("votes", lambda a: a.astype(np.longdouble)),
    "the other byte order": ("votes", lambda a: a.astype(">f8")),
    "signed routes": ("routes", lambda a: a.astype(np.int64)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change"), HOSTILE_ARRAYS.values(), ids=HOSTILE_ARRAYS.keys())
def test_arrays_that_do_not_make_a_forest_are_refused(name, change, tmp_path):
    assert refused(forge(tmp_path, arrays={name: change}))


def test_an_array_that_claims_to_be_huge_or_is_broken_is_refused(tmp_path):
    assert refused(forge(tmp_path, blobs={"counts": huge_array()}))
    for blob in (b"", b"\x93NUMPY", b"hello", b"\x93NUMPY\x01\x00\xff\xff{"):
        assert refused(forge(tmp_path, blobs={"votes": blob})), blob


def without(name):
    return lambda facts: {key: value for key, value in facts.items() if key != name}


def changed(path, value):
    def change(facts):
        part = facts
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        return facts

    return change


CHARGE = {"charge": "leaves", "mechanism": "geometric", "amount": 0.5}


def charged(**more):
    """A header whose ledger holds one charge with something more."""
    return changed(["ledger", "books", 0, "root", "children"], [CHARGE | more])


def rate(value):
    return charged(parameters={"rate": value})


HOSTILE_HEADERS = {
    "noise of votes that is text": changed(["vote_noise"], ["0.5"]),
    "noise of votes of other trees": changed(["vote_noise"], [0.5] * 1000),
    "a list": lambda facts: [facts],
    "a number": lambda facts: 5,
    "another format": changed(["format"], "other"),
    "a later version": changed(["version"], 3),
    "another digest": changed(["digest"], "0" * 64),
    **{f"no {name}": without(name) for name in ("digest", "parameters", "schema", "ledger", "privacy")},
    "unknown parameter": changed(["parameters", "code"], "import os"),
    "threads without end": changed(["parameters", "n_jobs"], 10**6),
    "threads by name": changed(["parameters", "n_jobs"], {"all": True}),
    "a recipe that is a list": changed(["parameters", "recipe"], ["auto"]),
    "a charge of words": changed(["ledger", "books", 0, "root", "children"], [{"charge": 1, "mechanism": 2, "amount": "x"}]),
    "a ledger of a later format": changed(["ledger", "format"], 3),
    "a level of words": charged(level="first"),
    "a level below the root": charged(level=-1),
    "a level that is a truth": charged(level=True),
    "a step that is a number": charged(step=1),
    "a tree without end": changed(["ledger", "books", 0, "root", "tree"], 1 << 40),
    "parameters in a list": charged(parameters=["1"]),
    "a rate that is a float": rate(0.5),
    "a rate over nothing": rate("1/0"),
    "a rate below nothing": rate("-1/2"),
    "a rate that fills the memory": rate("1e1000000000"),
    "copies that are a truth": changed(["ledger", "books", 0, "root", "copies"], True),
    "reasons that are numbers": changed(["privacy", "reasons"], [5]),
    "a loss below zero": changed(["privacy", "epsilon"], -1),
    "a day that is a number": changed(["trained_on"], 20260725),
    "a day in words": changed(["trained_on"], "yesterday"),
    "a day in another form": changed(["trained_on"], "20260725"),
    "epsilon as words": changed(["parameters", "epsilon"], "much"),
    "wrong schema": changed(["schema", "features"], {}),
    "more classes than votes": changed(["schema", "target", "labels"], ["a", "b", "c"]),
    "another target than the votes": changed(["schema", "target"], {"kind": "bounded", "lower": 0, "upper": 1}),
    "more categories than routes": changed(["schema", "features", "sex", "categories"], [str(i) for i in range(500)]),
    "feature that is missing": changed(["schema", "features"], {"age": {"kind": "numeric", "lower": 0, "upper": 100}}),
    "names of other columns": changed(["feature_names"], ["q"]),
    "names that come twice": changed(["feature_names"], ["age", "sex", "age"]),
    "names that are none": changed(["feature_names"], 7),
    "statement of numbers": changed(["privacy", "reasons"], 5),
    "statement that holds by words": changed(["privacy", "holds"], "yes"),
    "ledger of an unknown kind": changed(["ledger", "books", 0, "root", "kind"], "free"),
    "deep nesting": lambda facts: json.dumps(facts, indent=1)[:-1] + ', "more": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "no json": lambda facts: json.dumps(facts)[:-1],
    "empty": lambda facts: "",
}


@pytest.mark.parametrize("header", HOSTILE_HEADERS.values(), ids=HOSTILE_HEADERS.keys())
def test_a_header_that_does_not_fit_is_refused(header, tmp_path):
    assert refused(forge(tmp_path, header=header))


def test_a_charge_that_fits_is_read(tmp_path):
    """Else the refusals above would say nothing."""
    sound = charged(parameters={"rate": "1/2"}, level=3, step="median")
    model = load_model(forge(tmp_path, header=sound))
    (charge,) = model.ledger_.root.children
    assert charge == Charge(Purpose("leaves", "median", level=3), Mechanism("geometric", {"rate": Fraction(1, 2)}), 0.5)


def test_compressed_missing_and_additional_entries_are_refused(tmp_path):
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
        assert refused(forge(tmp_path, method=method))
    for entry in (("more.npy", _array_bytes(np.zeros(1))), ("../escape.npy", b"")):
        assert refused(forge(tmp_path, extra=[entry]))
    path = forge(tmp_path)
    kept = {name: blob for name, blob in entries_of(path.read_bytes()).items() if name != "votes.npy"}
    path.write_bytes(packed(kept))
    assert refused(path)


def test_a_path_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for place in ("", "missing/m.dpf", "file/m.dpf", "x" * 300):
        with pytest.raises(ModelFileError):
            classifier().save(tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyboardInterrupt()], ids=["disk", "interrupt"])
@pytest.mark.parametrize("function", ["replace", "fdopen"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(function, error, tmp_path, monkeypatch):
    path = tmp_path / "m.dpf"
    path.write_text("old")
    model = classifier()

    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(os, function, fail)
    with pytest.raises((ModelFileError, OSError, KeyboardInterrupt)):
        model.save(path)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.dpf"]


def test_a_changed_model_is_read_if_asked_for_and_then_promises_nothing(tmp_path):
    # A statement that was made better than it is, by someone who did not think of the digest.
    better = lambda facts: changed(["privacy", "epsilon"], 0.001)(facts | {"digest": "0" * 64})  # noqa: E731
    path = forge(tmp_path, header=better)
    with pytest.raises(ModelFileError, match="allow_changed=True"):
        load_model(path)
    with pytest.warns(ChangedModelWarning, match="no guarantee"):
        model = load_model(path, allow_changed=True)
    assert not model.privacy_.holds
    assert str(model.privacy_).startswith("No privacy guarantee")
    assert len(model.predict(X)) == len(X)
    # Saving gives it a digest, but no guarantee.
    twin = load_model(saved(model, tmp_path, "again.dpf"))
    assert twin.privacy_ == model.privacy_


def test_a_model_that_was_not_changed_is_read_without_a_warning_whatever_was_allowed(tmp_path, recwarn):
    model = classifier()
    recwarn.clear()  # the fit of so small a table may warn
    assert same(model, load_model(saved(model, tmp_path), allow_changed=True))
    assert not recwarn
