"""The secret sample of a recipe: when it is drawn, how large it is, and how users ask for another one."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import seed_coins
from tests.support.encoded import rows_of
from tests.support.strategies import FIXED, facts_of

from dpforest import Classes, DPForestClassifier, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.mechanisms import Entropy
from dpforest.parts import sampling
from dpforest.parts.sampling import ALL_ROWS, ROWS_OF_CLASS, ROWS_OF_NUMBER, WORTHWHILE, SecretSample
from dpforest.privacy.amplification import SHARE_STEPS
from dpforest.recipes import get_recipe, is_listed, list_recipes
from dpforest.records.doors import seal_elsewhere
from dpforest.records.people import People
from dpforest.records.vault import Vault

NAMES = [recipe["name"] for recipe in list_recipes()]
FEATURES = {"x": Numeric(0, 1), "z": Numeric(0, 1)}
HALF = Fraction(1, 2)
RNG = np.random.default_rng(11)
X = RNG.random((400, 2))
Y = (X[:, 0] > 0.5).astype(int)


def schema_of(n_rows=None, target=None):
    return Schema(FEATURES, target or Classes([0, 1]), n_rows=n_rows)


# --- shares ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [None, 1, 2, 3, 18])
def test_a_sample_is_drawn_from_tables_of_more_than_five_quarters_of_the_rows_that_a_plan_can_use(n_classes):
    usable = ROWS_OF_NUMBER if n_classes is None else ROWS_OF_CLASS * max(n_classes, 2)
    assert WORTHWHILE == 1.25

    def share(n_rows):
        return SecretSample().share(facts_of(n_rows=n_rows, n_classes=n_classes))

    for few in (-5.0, 0.0, 1000.0, float(usable), 1.25 * usable):
        assert share(few) == 1
    assert share(math.nextafter(1.25 * usable, math.inf)) == Fraction(8 * SHARE_STEPS // 10, SHARE_STEPS)
    for more in (1.3, 2, 10, 777.7):
        found = share(more * usable)
        assert found <= 1 / Fraction(more) < found + Fraction(1, SHARE_STEPS)


def test_a_number_of_rows_that_is_asked_for_is_drawn_from_any_larger_table():
    for wanted, n_rows, share in [
        (100, 100.0, 1), (100, 99.0, 1), (100, 0.0, 1), (100, -3.0, 1), (1, 2.0, Fraction(1, 2)),
        (100, 400.0, Fraction(1, 4)), (99, 100.0, Fraction(math.floor(SHARE_STEPS * 0.99), SHARE_STEPS)),
        (1.5, 3.0, Fraction(1, 2)),
    ]:  # fmt: skip
        for n_classes in (None, 2, 30):
            assert SecretSample(wanted).share(facts_of(n_rows=n_rows, n_classes=n_classes)) == share


def test_a_share_is_a_step_less_than_all_and_one_step_at_least():
    assert SecretSample(10**9).share(facts_of(n_rows=1e9 + 1)) == Fraction(SHARE_STEPS - 1, SHARE_STEPS)
    for n_rows in (float(SHARE_STEPS), 1e9, 1e18, 1e300):
        assert SecretSample(1).share(facts_of(n_rows=n_rows)) == Fraction(1, SHARE_STEPS)


@FIXED
@given(st.floats(1, 1e12), st.floats(1, 1e15), st.sampled_from([None, 2, 7]))
def test_a_share_is_a_multiple_of_its_step_and_keeps_no_more_rows_than_are_wanted(wanted, n_rows, n_classes):
    share = SecretSample(wanted).share(facts_of(n_rows=n_rows, n_classes=n_classes))
    assert 0 < share <= 1
    assert SHARE_STEPS % share.denominator == 0
    assert share == 1 or share == Fraction(1, SHARE_STEPS) or float(share) * n_rows <= wanted * (1 + 1e-12)


def test_all_rows_are_used_if_that_is_asked_for_or_nothing_is_to_be_hidden():
    for n_rows in (10.0, 1e9, 1e300):
        assert ALL_ROWS.share(facts_of(n_rows=n_rows)) == 1
        assert SecretSample().share(facts_of(n_rows=n_rows, epsilon=math.inf)) == 1
        assert SecretSample(5).share(facts_of(n_rows=n_rows, epsilon=math.inf)) == 1


def test_a_sample_needs_the_number_of_rows_unless_it_is_all_of_them():
    assert SecretSample().needs_rows
    assert SecretSample(100).needs_rows
    assert not ALL_ROWS.needs_rows
    assert SecretSample(0) == ALL_ROWS


@pytest.mark.parametrize("rows", [-1, 0.99, math.inf, -math.inf, math.nan, False])
def test_fewer_rows_than_one_are_refused_in_a_sentence(rows):
    for ask in (SecretSample, lambda rows: get_recipe("auto").with_parameters({"sample_rows": rows})):
        with pytest.raises(ParameterError, match=r"^sample_rows must be a number of at least 1, or 0 for all rows, not .+"):
            ask(rows)


# --- recipes --------------------------------------------------------------------------------------------------------


def test_the_default_recipe_draws_a_sample_and_those_of_papers_use_all_rows():
    for name in NAMES:
        assert get_recipe(name).secret_sample == (SecretSample() if name == "auto" else ALL_ROWS)


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_takes_a_number_of_rows_and_is_listed_with_it(name):
    recipe = get_recipe(name)
    assert "sample_rows" in recipe.to_dict()["parameters"]
    for rows in (1, 1000, 12.5, 0, np.int64(70), np.float64(2e6)):
        asked = recipe.with_parameters({"sample_rows": rows})
        assert asked == replace(recipe, secret_sample=SecretSample(rows))
        assert asked.settings()["sample_rows"] == rows
        assert is_listed(asked)
        assert asked.needs_rows == (recipe.planner is not None or recipe.needs_rows or rows > 0)
    assert get_recipe(name) is recipe
    assert recipe == get_recipe(name).with_parameters(None)


def test_a_recipe_with_another_sample_than_a_number_of_rows_is_not_listed():
    class Own(SecretSample):
        def share(self, facts):
            return Fraction(1, 2)

    assert not is_listed(replace(get_recipe("auto"), secret_sample=Own()))


# --- fits -----------------------------------------------------------------------------------------------------------


def sampled(n_rows=400, rows=100, groups=None, **parameters):
    """A small fit that asks for a sample of so many rows."""
    parameters = {"n_trees": 2, "max_depth": 2, "recipe_params": {"sample_rows": rows}} | parameters
    return DPForestClassifier(schema_of(n_rows), **parameters).fit(X, Y, **({} if groups is None else {"groups": groups}))


def note_of(model):
    return [note for note in model.privacy_.notes if "secret sample" in note]


def rows_in(vault):
    """The rows of a vault, by their first value, which occurs once; a question each time."""
    return {*rows_of(vault).columns[0]}


def sources():
    """Functions that seal the rows with two of each person: in memory, and as a stream that is read once."""
    table = pa.table({"x": X[:, 0], "z": X[:, 1], "target": Y, "person": np.arange(400) // 2})
    return {
        "memory": lambda people: Vault.seal(X, Y, schema_of(), groups=np.arange(400) // 2, people=people),
        "stream": lambda people: seal_elsewhere(table.to_reader(max_chunksize=90), schema_of(), 1, "person", people),
    }


@pytest.mark.parametrize("source", ["memory", "stream"])
def test_what_coins_select_is_drawn_once(source):
    of_persons = sources()[source](People(1, Entropy()))
    some = sources()[source](None)
    n_rows = int(some.count()._value[0])  # of a stream, too, before it is sampled
    halved = some.sampled(HALF, Entropy())
    assert (n_rows, int(of_persons.count()._value[0])) == (400, 200)
    assert 140 < len(rows_in(halved)) < 260  # once in a hundred million runs it is not
    for vault in (of_persons, halved):
        assert rows_in(vault) == rows_in(vault)
        assert len(rows_in(vault)) == vault.count()._value[0]


@pytest.mark.parametrize("source", ["memory", "stream"])
def test_a_sample_has_all_rows_of_a_person_or_none(source):
    kept = np.isin(X[:, 0], [*rows_in(sources()[source](People(2, Entropy())).sampled(HALF, Entropy()))])
    assert (kept[::2] == kept[1::2]).all()
    assert 0 < kept.sum() < 400


@pytest.fixture
def small_plans(monkeypatch):
    """Plans draw a sample from tables of 400 rows."""
    monkeypatch.setattr(sampling, "ROWS_OF_CLASS", 50)


@pytest.mark.parametrize("n_rows", [None, 400])
@pytest.mark.parametrize("name", ["auto", "fletcher-islam-2017"])
def test_a_budget_with_delta_takes_what_a_fit_without_a_sample_costs(name, n_rows, small_plans, budget, monkeypatch):
    seed_coins(monkeypatch)  # once in 500 fits the noisy number of rows is too small for a sample

    def fit(budget):
        # This one asks for the number of rows for its sample alone.
        recipe = name if name == "auto" else replace(get_recipe(name), secret_sample=SecretSample())
        return sampled(n_rows, epsilon=1.0, delta=1e-7, recipe=recipe, recipe_params=None, budget=budget)

    assert fit(None).ledger_.sample_share < 1
    model = fit(budget)
    assert model.ledger_.sample_share == 1
    assert note_of(model) == []
    assert model.ledger_.spent <= 1.0
    assert 0 < budget.spent <= 1.0


@pytest.mark.parametrize("n_rows", [None, 400])
@pytest.mark.parametrize("name", ["auto", "fletcher-islam-2017"])
def test_a_sample_that_is_asked_for_is_refused_with_a_budget_and_delta_before_anything_is_spent(name, n_rows, budget):
    model = DPForestClassifier(
        schema_of(n_rows), delta=1e-7, recipe=name, recipe_params={"sample_rows": 100}, n_trees=1, budget=budget
    )
    with pytest.raises(ParameterError, match=r"^sample_rows asks for a secret sample\. With delta, .* Set delta = 0, "):
        model.fit(X, Y)
    assert budget.spent == 0
    assert not hasattr(model, "ledger_")


def test_all_rows_that_are_asked_for_are_used_with_a_budget_and_delta(budget):
    assert sampled(rows=0, delta=1e-7, budget=budget).ledger_.sample_share == 1
