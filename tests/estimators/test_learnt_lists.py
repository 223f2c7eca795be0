"""Fits whose schema has no list of categories and asks for one: what is named, charged, stated, kept and refused."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused
from tests.torture.forged import forge

from dpforest import Budget, DPForestClassifier, DPForestRegressor, DPSearchCV, load_model
from dpforest.common.files import unpacked
from dpforest.errors import ModelFileError, ParameterError, SchemaError
from dpforest.model import file
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.ledger import Ledger
from dpforest.records.vault import Vault
from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.schema.domain import MOST_LISTED

LEARN = Categorical(learn=True)
SCHEMA = Schema({"town": LEARN, "size": LEARN, "x": Numeric(0, 1)}, Classes(["no", "yes"], name="says"))


def people(n_rows=3000, seed=0):
    """Four large towns, and as many small ones as rows allow; sizes are numbers. In Oslo and Rome people say yes."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["Oslo", "Rome", "Bonn", "it's"], n_rows).astype(object)
    town[::9] = [f"small {index}" for index in range(len(town[::9]))]
    town[::50] = None
    says = np.where(np.isin(town, ["Oslo", "Rome"]) ^ (rng.random(n_rows) < 0.05), "yes", "no")
    return pd.DataFrame({"town": town, "size": rng.choice([1, 2, 40], n_rows), "x": rng.random(n_rows), "says": says})


def fitted(table=None, schema=SCHEMA, **settings):
    table = people() if table is None else table
    model = DPForestClassifier(schema, **{"epsilon": 2.0, "delta": 1e-5, **settings})
    return model.fit(table.drop(columns="says"), table["says"])


@pytest.fixture(scope="module")
def model():
    return fitted()


def charges_of_lists(ledger):
    return [charge for book in ledger.books for charge in book.root.children if charge.purpose.kind == "list of values"]


def test_frequent_values_are_named_and_others_count_as_other(model):
    lists = model.forest_.domain.lists
    assert sorted(lists["town"]) == ["Bonn", "Oslo", "Rome", "it's"]
    assert sorted(lists["size"]) == ["1", "2", "40"]
    assert "town in {" in (rules := "\n".join(rule["rule"] for rule in model.forest_.rules())) or "town = " in rules
    assert "small" not in rules
    rows = pd.DataFrame({"town": ["Oslo", "Bonn", "small 3", "never seen"], "size": [1, 1.0, "1", 1], "x": 0.5})
    assert model.predict(rows)[:2].tolist() == ["yes", "no"]
    shares = model.predict_proba(rows)
    np.testing.assert_array_equal(shares[2], shares[3])
    assert model.schema_ == SCHEMA


def test_the_statement_says_what_was_learnt_and_the_ledger_what_it_cost(model):
    assert any("'town', 'size' were learnt" in note for note in model.privacy_.notes)
    assert model.privacy_.holds
    assert (model.privacy_.delta, model.ledger_.spent <= 2.0) == (1e-5, True)
    rows, rest = model.ledger_.books
    assert (rows.accountant.delta, rest.accountant.delta, rest.accountant.threshold_delta) == (0.0, 1e-5, 1e-6)
    charges = charges_of_lists(model.ledger_)
    assert [charge.purpose.step for charge in charges] == ["town", "size"]
    assert sum(charge.mechanism.parameters["delta"] for charge in charges) == Fraction(1, 10**6)
    assert sum(charge.amount for charge in charges) <= 0.1 * rest.accountant.budget
    assert Ledger.from_json(model.ledger_.to_json()) == model.ledger_


PURE = {"low signal": {"epsilon": 0.02}, "bootstrap": {"recipe": "li-2022", "n_trees": 2}}


@pytest.mark.parametrize("name", PURE)
def test_where_other_releases_are_pure_lists_have_all_of_delta(name):
    model = fitted(people(1200), replace(SCHEMA, n_rows=1200), **PURE[name])
    book = model.ledger_.books[-1]
    assert (book.accountant.unit, book.accountant.delta, book.accountant.threshold_delta) == ("epsilon", 1e-5, 1e-5)
    assert {charge.mechanism.name for charge in charges_of_lists(model.ledger_)} == {"geometric"}
    assert model.ledger_.spent <= model.epsilon
    assert not any("delta was not used" in note for note in model.privacy_.notes)


def test_rows_of_one_person_raise_the_threshold_of_a_list():
    table = people(2000)
    ids, schema = np.arange(len(table)) // 2, Schema(SCHEMA.features, SCHEMA.target, n_rows=2000)
    kept = {}
    for most in (1, 2):
        model = DPForestClassifier(schema, epsilon=4.0, delta=1e-5, max_rows_per_person=most)
        model.fit(table.drop(columns="says"), table["says"], groups=ids)
        ran = charges_of_lists(model.ledger_)[0].mechanism.parameters
        kept[most] = ran["threshold"], ran["variance"]
        assert model.ledger_.spent <= 4.0
    # A quarter of rho is left to a record, so twice the deviation; and two records bring as much as two values do.
    assert kept[2][1] > 3.9 * kept[1][1]
    assert kept[2][0] > 1.95 * kept[1][0]


def test_without_noise_a_list_has_every_value_up_to_the_public_cap():
    n_rows = MOST_LISTED + 50
    table = pd.DataFrame({"town": [f"{index:04}" for index in range(n_rows)], "size": 7, "x": 0.5, "says": "no"})
    table = pd.concat([table, table[-30:]])
    lists = fitted(table, epsilon=math.inf, delta=0.0, n_trees=1, max_depth=1).forest_.domain.lists
    assert len(lists["town"]) == MOST_LISTED
    assert lists["town"][:31] == [*(f"{index:04}" for index in range(n_rows - 30, n_rows)), "0000"]
    assert lists["size"] == ["7"]


def test_a_list_without_values_leaves_the_buckets_that_were_declared(tmp_path):
    table = people(40).assign(town=[f"only here {index}" for index in range(40)])
    schema = replace(SCHEMA, features={**SCHEMA.features, "town": Categorical(learn=True, buckets=16)})
    model = fitted(table, schema, epsilon=0.5)
    assert model.forest_.domain.lists["town"] == []
    assert model.forest_.domain.words[0][15:].tolist() == ["bucket 15", "other", "missing"]
    model.save(tmp_path / "model.dpf")
    again = load_model(tmp_path / "model.dpf")
    np.testing.assert_array_equal(
        again.predict_proba(table[[*SCHEMA.features]]), model.predict_proba(table[[*SCHEMA.features]])
    )
    assert len(fitted(people(4000), schema).forest_.domain.features[0].categories) == 4


def test_texts_that_no_query_or_file_could_hold_are_not_listed():
    odd = ["a\0b", "${user}", "x" * 201, "y" * 200]
    table = people(4000).assign(town=[odd[index % 4] for index in range(4000)])
    assert fitted(table).forest_.domain.lists["town"] == ["y" * 200]


def test_regression_learns_lists_too():
    table = people(3000)
    schema = Schema(SCHEMA.features, Bounded(0, 10, name="says"))
    y = np.where(table["says"] == "yes", 8.0, 2.0)
    model = DPForestRegressor(schema, epsilon=2.0, delta=1e-5).fit(table.drop(columns="says"), y)
    assert sorted(model.forest_.domain.lists["town"]) == ["Bonn", "Oslo", "Rome", "it's"]
    assert model.score(table.drop(columns="says"), y) > 0.3


def test_a_model_without_lists_has_none_in_its_file(tmp_path):
    path, table = tmp_path / "model.dpf", people(300)
    DPForestClassifier(Schema({"x": Numeric(0, 1)}, SCHEMA.target), epsilon=1.0).fit(table[["x"]], table["says"]).save(path)
    entries = unpacked(path.read_bytes(), {file.HEADER, *(f"{name}.npy" for name in file.ARRAYS)})
    assert "lists" not in json.loads(bytes(entries[file.HEADER]))


BAD_LISTS = [
    {}, {"town": ["a"]}, {"town": ["a"], "size": [], "x": []}, {"town": "abcd", "size": []}, {"town": [1], "size": []},
    {"town": ["a", "a"], "size": []}, {"town": ["x" * 201], "size": []}, {"town": ["\0"], "size": []}, [],
    {"town": [str(index) for index in range(MOST_LISTED + 1)], "size": []},
]  # fmt: skip


def test_a_file_with_lists_that_no_fit_would_have_made_is_refused(model, tmp_path):
    path = tmp_path / "model.dpf"
    for lists in BAD_LISTS:
        model.save(path)
        forge(path, {}, lambda facts, lists=lists: facts.update(lists=lists))
        with pytest.raises(ModelFileError):
            load_model(path)


# --- what is refused, before a charge -------------------------------------------------------------------------------


def test_what_cannot_learn_lists_refuses_them_in_words_before_anything_is_read_or_charged(tmp_path, monkeypatch):
    monkeypatch.setattr(Vault, "seal", lambda *_, **__: pytest.fail("read"))
    table, budget = people(20), Budget.open(tmp_path / "budget.db", "people", 10.0, 1e-3)
    without_delta = r"'town' is declared Categorical\(learn=True\).*Set delta > 0"
    for settings, words in [
        ({"delta": 0.0}, without_delta),
        ({"delta": 1e-250}, without_delta),
        ({"budget": budget}, "a delta of its own"),
        ({"recipe": "li-2022", "variant": "published"}, r"printed form of 'li-2022' learns no list"),
    ]:
        model = DPForestClassifier(SCHEMA, **{"delta": 1e-5, **settings})
        with pytest.raises(ParameterError, match=words):
            model.fit(table.drop(columns="says"), table["says"])
        assert not hasattr(model, "ledger_")
    assert budget.spent == 0.0
    with pytest.raises(ParameterError, match="private search cannot add up"):
        DPSearchCV(DPForestClassifier(SCHEMA), {"max_depth": [1, 2]}).fit(table.drop(columns="says"), table["says"])
    with pytest.raises(SchemaError, match="none to learn"):
        Schema({"town": Categorical(["a"], learn=True)}, SCHEMA.target)


def test_a_budget_too_small_for_what_lists_leave_is_refused_before_a_charge():
    table = people(20)
    model = DPForestClassifier(SCHEMA, delta=1e-5, n_trees=1, max_depth=1)
    for epsilon in 2.0 ** -np.arange(10.5, 12.5, 0.125):
        model.set_params(epsilon=float(epsilon))
        vars(model).pop("ledger_", None)
        try:
            model.fit(table.drop(columns="says"), table["says"])
        except ParameterError:
            assert getattr(model, "ledger_", Ledger(make_accountant(1.0, 0.0))).n_charges == 0


# --- what people see ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_plan_ledger_and_report_say_what_lists_cost_and_buy(model, tmp_path):
    SCHEMA.to_file(tmp_path / "schema.json")
    model.save(tmp_path / "model.dpf")
    plan = ["plan", "--schema", tmp_path / "schema.json", "--epsilon", 2, "--rows", 4000]
    found = json.loads(done(*plan, "--delta", "1e-5", "--json"))
    (line,) = [line for line in found["shares"] if line["what"] == "list of values"]
    assert (line["value"], "10% of delta" in line["why"], "2 charges" in line["why"]) == ("10.0%", True, True)
    assert "Set delta > 0" in refused(*plan)
    assert "delta = 1e-06 for" in " ".join(done("ledger", tmp_path / "model.dpf").split())
    charges = json.loads(done("ledger", tmp_path / "model.dpf", "--json"))["books"][1]["root"]["children"]
    assert charges[0]["step"] == "town"
    assert set(charges[0]["parameters"]) == {"l2_squared", "variance", "threshold", "delta"}
    model.save_report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "list of values: town" in page
    assert "the fit named those that occur often enough" in page
