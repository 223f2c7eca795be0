"""Data sets that belong to others: every release is charged to all of them, and within the cap of each."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget.stores import become_older, forge, spend

from dpforest import Budget
from dpforest.budget import Cap, Loss
from dpforest.budget.chain import MOST_ABOVE
from dpforest.budget.totals import NOTHING
from dpforest.errors import AccountingError, BudgetDamagedError, BudgetError, BudgetStoreError, ParameterError
from dpforest.privacy.accountants import zcdp_rho

CAPS = {"hospital": Cap(2.0, 1e-6), "ward-7": Cap(1.5, 1e-6), "ward-8": Cap(1.5, 0.0), "bed-1": Cap(5.0, 1e-6)}
PARENTS = {"hospital": None, "ward-7": "hospital", "ward-8": "hospital", "bed-1": "ward-7"}


def line(name):
    return [] if name is None else [name, *line(PARENTS[name])]


@pytest.fixture
def house(path):
    """A hospital, two wards, and a bed in one of them, by name."""
    return {name: Budget.open(path, name, cap.epsilon, cap.delta, belongs_to=PARENTS[name]) for name, cap in CAPS.items()}


def test_a_release_is_charged_to_all_that_its_data_set_belongs_to_and_to_no_other(house):
    spend(house["bed-1"], 0.25)
    spend(house["ward-8"], 0.5)
    spend(house["hospital"], 0.125)
    assert {name: budget.spent for name, budget in house.items()} == {
        "hospital": 0.875, "ward-7": 0.25, "ward-8": 0.5, "bed-1": 0.25,
    }  # fmt: skip
    assert [release["dataset"] for release in house["hospital"].history()] == ["bed-1", "ward-8", "hospital"]
    assert [release["dataset"] for release in house["ward-7"].history()] == ["bed-1"]
    assert house["bed-1"].belongs_to == "ward-7"
    assert house["hospital"].belongs_to is None


def test_a_release_that_would_pass_the_cap_above_is_refused_and_entered_nowhere(house):
    spend(house["ward-7"], 1.5)
    before = house["hospital"].export()
    with pytest.raises(BudgetError, match=r"budget of 'hospital' for epsilon = 1 .*0\.5 .*'ward-8' belongs to 'hospital'"):
        house["ward-8"].reserve("fit", outcomes=[Loss.pure(1.0)])
    assert house["hospital"].export() == before
    assert (house["ward-8"].spent, house["ward-8"].left) == (0.0, 0.5)
    spend(house["ward-8"], 0.5)
    # The ward has room of its own, and the house has none.
    assert (house["ward-8"].spent, house["ward-8"].left, house["hospital"].left) == (0.5, 0.0, 0.0)


def test_a_reservation_is_settled_where_it_was_made_and_gives_back_to_all(house):
    bed = house["bed-1"]
    reservation = bed.reserve("fit", outcomes=[Loss.pure(1.0)])
    assert {house[name].spent for name in line("bed-1")} == {1.0}
    for other in ("hospital", "ward-7", "ward-8"):
        with pytest.raises(AccountingError, match="no open reservation"):
            house[other].settle(reservation, Loss.pure(0.0))
    bed.settle(reservation, Loss.pure(0.5))
    assert {house[name].spent for name in line("bed-1")} == {0.5}
    position = bed.position()
    assert (position["left"], position["belongs_to"]["left"]) == (1.0, 1.0)
    above = position["belongs_to"]["belongs_to"]
    assert (above["dataset"], above["spent"], above["epsilon"], above["belongs_to"]) == ("hospital", 0.5, 2.0, None)


@pytest.mark.parametrize(("name", "delta"), [("bed-1", 1e-6), ("day", 1e-3)])
def test_what_is_left_with_delta_is_what_all_admit(path, house, name, delta):
    """Also at a delta that is not that of the cap above."""
    spend(house["hospital"], 1.0)
    budget = house.get(name) or Budget.open(path, name, 5.0, delta, belongs_to="hospital")
    assert 0.0 < budget.left_with_delta < 1.0
    rho = zcdp_rho(budget.left_with_delta, delta)
    with pytest.raises(BudgetError, match="budget of 'hospital'"):
        budget.reserve("fit", outcomes=[Loss(math.inf, 1.001 * rho)])
    budget.reserve("fit", outcomes=[Loss(math.inf, rho)])
    assert budget.left_with_delta == 0.0


losses = st.one_of(st.floats(0.05, 1.0).map(Loss.pure), st.floats(1e-3, 0.05).map(lambda rho: Loss(math.inf, rho)))
releases = st.tuples(st.sampled_from([*CAPS]), losses, st.booleans())


@pytest.mark.slow
@given(st.lists(releases, min_size=1, max_size=12))
@settings(deadline=None, max_examples=25)
def test_every_cap_of_a_line_holds_for_the_exact_sums_whatever_is_released_where(tmp_path_factory, steps):
    """The sums of each data set are added up here anew, from a list of all that was admitted; a refusal is for one."""
    path = tmp_path_factory.mktemp("house") / "b.db"
    house = {name: Budget.open(path, name, cap.epsilon, cap.delta, belongs_to=PARENTS[name]) for name, cap in CAPS.items()}
    charged = []

    def holds(name, releases):
        sums = NOTHING
        for where, loss in releases:
            if name in line(where):
                sums = sums.plus(CAPS[name].sums(loss))
        return CAPS[name].admits(sums)

    for where, loss, is_settled in steps:
        try:
            reservation = house[where].reserve("fit", outcomes=[loss])
        except BudgetError:
            assert not all(holds(name, [*charged, (where, loss)]) for name in line(where))
            continue
        charged.append((where, loss))
        assert all(holds(name, charged) for name in CAPS)
        if is_settled:
            house[where].settle(reservation, loss)


def test_what_is_made_is_fixed_for_good(path, house):
    again = Budget.open(path, "ward-7", 1.5, 1e-6, belongs_to="hospital")
    assert again == house["ward-7"] == Budget.open(path, "ward-7") == Budget.open(path, "ward-7", belongs_to="hospital")
    for wrong in ({"epsilon": 1.5, "delta": 1e-6}, {"belongs_to": "ward-8"},
                  {"epsilon": 1.5, "delta": 1e-6, "belongs_to": "ward-8"}):  # fmt: skip
        with pytest.raises(ParameterError, match=r"belongs to 'hospital', not to (no other|'ward-8')"):
            Budget.open(path, "ward-7", **wrong)
    with pytest.raises(ParameterError, match="belongs to no other, not to 'ward-7'"):
        Budget.open(path, "hospital", 2.0, 1e-6, belongs_to="ward-7")


def test_the_one_that_it_belongs_to_must_be_there_and_have_its_unit(tmp_path, path, house):
    with pytest.raises(BudgetStoreError, match="no budget of 'clinic'"):
        Budget.open(path, "ward-9", 1.0, belongs_to="clinic")
    with pytest.raises(BudgetStoreError, match="no budget of 'ward-9'"):
        Budget.open(path, "ward-9", 1.0, belongs_to="ward-9")
    with pytest.raises(ParameterError, match="for the unit 'record'"):
        Budget.open(path, "ward-9", 1.0, unit="person", belongs_to="hospital")
    with pytest.raises(ParameterError, match="named by a text"):
        Budget.open(path, "ward-9", 1.0, belongs_to=["hospital"])
    with pytest.raises(BudgetStoreError, match="no budget at"):
        Budget.open(tmp_path / "new.db", "ward-9", 1.0, belongs_to="hospital")
    assert not (tmp_path / "new.db").exists()
    assert len(Budget.open_all(path)) == 4


def test_a_line_has_an_end(path):
    Budget.open(path, "0", 1.0)
    for number in range(1, MOST_ABOVE + 1):
        Budget.open(path, str(number), 1.0, belongs_to=str(number - 1))
    with pytest.raises(ParameterError, match=f"at most {MOST_ABOVE} above"):
        Budget.open(path, "more", 1.0, belongs_to=str(MOST_ABOVE))
    spend(Budget.open(path, str(MOST_ABOVE)), 0.5)
    assert {budget.spent for budget in Budget.open_all(path)} == {0.5}


@pytest.mark.parametrize("wrong", [{"belongs_to": "ward-7"}, {"belongs_to": "nowhere"}, {"belongs_to": ["hospital"]},
                                   {"unit": "person"}, {"kind": "create-whole"}])  # fmt: skip
def test_a_line_that_was_changed_into_a_circle_or_to_nowhere_is_refused(house, wrong):
    forge(house["hospital"], 2, **wrong)
    with pytest.raises(BudgetDamagedError, match="Entry 2"):
        house["hospital"].verify()


def test_a_version_that_does_not_know_of_lines_refuses_the_file(path, house, monkeypatch):
    become_older(monkeypatch)
    with pytest.raises(BudgetDamagedError, match=r"Entry 2 .*cannot be read"):
        Budget.open(path, "hospital")
