"""A ledger of several books: each within what is left, all added up. What is kept of closed scopes is what they cost."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpforest import Classes, DPForestClassifier, Numeric, Schema, load_model
from dpforest.errors import AccountingError, BudgetError, ParameterError
from dpforest.mechanisms import Entropy
from dpforest.privacy.accountants import SMALLEST, make_accountant, zcdp_epsilon, zcdp_rho
from dpforest.privacy.amounts import DIGITS, exact
from dpforest.privacy.bounds import Blocks, Sensitivity
from dpforest.privacy.composition import charged, shared
from dpforest.privacy.events import Charge, Mechanism, Purpose, Scope
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.records.vault import Vault

SCHEMA = Schema({"x": Numeric(0, 1), "z": Numeric(0, 1)}, Classes([0, 1]))
DELTA = 1e-6


def ledger_of(epsilon=1.0, delta=0.0):
    return Ledger(make_accountant(epsilon, delta))


# --- costs of closed scopes -----------------------------------------------------------------------------------------


def from_scratch(entry, accountant):
    """The cost of a scope without leaks, added up from its charges alone."""
    if isinstance(entry, Charge):
        return exact(entry.amount)
    if not isinstance(entry, Scope):
        return Fraction(0)
    costs = [from_scratch(child, accountant) for child in entry.children]
    if entry.kind == "parallel":
        return entry.copies * max(costs, default=Fraction(0))
    total = sum(costs, Fraction(0))
    if entry.kind == "bootstrap" and total:
        rounded = float(total) if exact(float(total)) >= total else math.nextafter(float(total), math.inf)
        total = exact(accountant.bootstrap(rounded))
    return entry.copies * total


def act(ledger, rng, n_steps, seen):
    """Random charges, leaks, scopes in scopes, and charges to scopes that were closed before."""
    kinds = ["sequential", "sequential", "parallel"] + ["bootstrap"] * (ledger.unit == "epsilon")
    for _ in range(n_steps):
        step = rng.choice(["charge", "charge", "scope", "inside", "leak"])
        if step == "charge":
            before = ledger.to_dict()["books"]
            try:
                ledger.charge("step", "geometric", float(rng.choice([0.1, 1 / 3, 0.0, 1e-17, 2.5])))
            except BudgetError:
                assert ledger.to_dict()["books"] == before
        elif step == "leak":
            ledger.leak("stop", "exact")
        elif step == "scope":
            with ledger.scope("part", str(rng.choice(kinds)), int(rng.choice([1, 1, 3]))) as scope:
                act(ledger, rng, n_steps // 2, seen)
            seen.append(scope)
        elif seen:
            with ledger.inside(seen[rng.integers(len(seen))]):
                act(ledger, rng, n_steps // 2, seen)
        assert ledger._charged() == from_scratch(ledger.root, ledger.accountant)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e6, 0.0), (9.0, 0.0), (200.0, DELTA), (3.0, DELTA)])
def test_what_is_kept_of_closed_scopes_is_what_their_charges_add_up_to(epsilon, delta):
    n_kept = 0
    for seed in range(12):
        ledger, seen = ledger_of(epsilon, delta), []
        act(ledger, np.random.default_rng(seed), 6, seen)
        assert Fraction(ledger._charged()) <= exact(ledger.accountant.budget)
        n_kept += sum(scope.known is not None for scope in seen)
        for scope in seen:
            assert scope.known in (None, from_scratch(scope, ledger.accountant))
            assert charged(scope, ledger.accountant) == from_scratch(scope, ledger.accountant)
        back = Ledger.from_json(ledger.to_json())
        assert back == ledger
        assert back._charged() == ledger._charged()
    # Else the comparison says nothing about what is kept.
    assert n_kept > 10


def test_charges_inside_an_earlier_scope_belong_to_it_and_later_ones_do_not():
    ledger = ledger_of()
    with ledger.scope("parts", "parallel"):
        with ledger.scope("first") as first:
            ledger.charge("a", "geometric", 0.25)
        with ledger.scope("second"):
            ledger.charge("b", "geometric", 0.5)
        with ledger.inside(first), ledger.scope("again"):
            ledger.charge("c", "geometric", 0.5)
    ledger.charge("d", "geometric", 0.25)
    assert [(entry["label"], entry["scope"]) for entry in ledger.entries()] == [
        ("a", "fit / parts / first"),
        ("c", "fit / parts / first / again"),
        ("b", "fit / parts / second"),
        ("d", "fit"),
    ]
    assert ledger.total == 1.0
    assert ledger.n_entries == 4
    assert Ledger.from_json(ledger.to_json()) == ledger


def test_a_scope_of_another_ledger_is_refused_for_its_charges_would_count_nowhere():
    ledger, other = ledger_of(), ledger_of()
    with other.scope("elsewhere") as foreign:
        pass
    for scope in (foreign, Scope(Purpose("nowhere"))):
        with pytest.raises(AccountingError), ledger.inside(scope):  # noqa: PT012
            for _ in range(3):
                ledger.charge("free", "geometric", 1.0)
    assert scope.children == []


def test_a_scope_of_an_earlier_book_is_closed_for_good():
    ledger = ledger_of(1.0)
    with ledger.scope("part") as part:
        ledger.charge("a", "geometric", 0.25)
    ledger.begin(make_accountant(0.5, 0.0))
    with pytest.raises(AccountingError, match="not in this ledger"), ledger.inside(part):
        ledger.charge("b", "geometric", 0.1)
    assert ledger.spent == 0.25


# --- books ----------------------------------------------------------------------------------------------------------


def two_books(epsilon=1.0, delta=DELTA, own=0.125):
    """A pure book that is used up, then one with delta and what is left."""
    ledger = ledger_of(epsilon, delta)
    ledger.begin(make_accountant(own, 0.0))
    ledger.charge("number of rows", "geometric", own)
    ledger.begin(make_accountant(epsilon - own, delta))
    return ledger


def test_a_book_without_charges_is_dropped_and_one_with_charges_stays():
    ledger = two_books()
    assert [book.accountant.unit for book in ledger.books] == ["epsilon", "rho"]
    ledger.begin(make_accountant(0.875, 0.0))
    assert [book.accountant.unit for book in ledger.books] == ["epsilon", "epsilon"]
    ledger.charge("leaves", "geometric", 0.875)
    assert ledger.spent == 1.0
    assert ledger.n_entries == 2


def test_books_add_up_by_basic_composition():
    ledger = two_books()
    half = ledger.accountant.budget / 2
    ledger.charge("splits", "exponential", half)
    assert ledger.total == half
    assert ledger.spent == pytest.approx(0.125 + zcdp_epsilon(half, DELTA), rel=1e-12)
    ledger.charge("leaves", "gaussian", half)
    assert 1 - 1e-9 < ledger.spent <= 1
    assert [set(entry) & {"epsilon", "rho"} for entry in ledger.entries()] == [{"epsilon"}, {"rho"}, {"rho"}]


def test_the_sum_of_books_is_that_of_decimals():
    ledger = ledger_of(1.0)
    for own in (0.1, 0.2, 0.4):
        ledger.begin(make_accountant(own, 0.0))
        ledger.charge("step", "geometric", own)
    assert ledger.spent == 0.7


def test_a_charge_is_checked_against_its_own_book():
    ledger = two_books()
    with pytest.raises(BudgetError):
        ledger.charge("leaves", "gaussian", math.nextafter(ledger.accountant.budget, 1))
    ledger.charge("leaves", "gaussian", ledger.accountant.budget)
    ledger = ledger_of(1.0)
    ledger.begin(make_accountant(0.25, 0.0))
    with pytest.raises(BudgetError, match=r"0\.25 of 0\.25 is left"):
        ledger.charge("leaves", "geometric", 0.5)


@settings(deadline=None, max_examples=200)
@given(st.floats(0.01, 50), st.lists(st.floats(0.001, 0.6), max_size=6), st.booleans())
def test_no_sequence_of_books_and_charges_passes_the_budget(epsilon, shares, greedy):
    ledger = ledger_of(epsilon)
    spent = Fraction(0)
    for share in shares:
        own = make_accountant(epsilon * share, 0.0)
        if spent + exact(own.epsilon) > exact(epsilon):
            before = ledger.to_dict()
            with pytest.raises(BudgetError):
                ledger.begin(own)
            assert ledger.to_dict() == before
            continue
        try:
            ledger.begin(own)
        except BudgetError:  # the loss of each book is rounded up in its last digit, so just what is left may be refused
            assert spent * (1 + Fraction(2, 10 ** (DIGITS - 1))) + exact(own.epsilon) > exact(epsilon)
            continue
        ledger.charge("step", "geometric", own.epsilon if greedy else own.epsilon / 2)
        spent += exact(own.epsilon if greedy else own.epsilon / 2)
    assert spent <= exact(ledger.spent) <= exact(epsilon)


def test_a_book_may_have_exactly_what_is_left_and_not_the_smallest_bit_more():
    for extra, fits in [(0.75, True), (math.nextafter(0.75, 1), False)]:
        ledger = ledger_of(1.0)
        ledger.charge("first", "geometric", 0.25)
        if fits:
            ledger.begin(make_accountant(extra, 0.0))
            ledger.charge("second", "geometric", extra)
            assert ledger.spent == 1.0
            continue
        with pytest.raises(BudgetError):
            ledger.begin(make_accountant(extra, 0.0))
        ledger.charge("still in the first", "geometric", 0.75)
        assert len(ledger.books) == 1


@pytest.mark.parametrize(
    ("share", "epsilon", "delta", "match"),
    [(0.01, 0.1, DELTA, None), (0.01, 0.1, 1e-30, None), (0.01, 0.1, 0.0, "epsilon"), (None, 0.25, 2 * DELTA, "delta")],
)
def test_a_book_beyond_epsilon_or_delta_is_refused_by_what_is_lacking(share, epsilon, delta, match):
    # A book with delta takes all that it may spend, however little it did; one without is about epsilon only.
    ledger = ledger_of(1.0, DELTA)
    if share is None:
        ledger.begin(make_accountant(0.5, 0.0))
    ledger.charge("first", ledger.accountant.noise, ledger.accountant.budget * (share or 1.0))
    with pytest.raises(BudgetError, match=match):
        ledger.begin(make_accountant(epsilon, delta))


def test_a_book_cannot_begin_inside_a_scope():
    ledger = ledger_of(1.0, DELTA)
    with ledger.scope("tree"), pytest.raises(AccountingError, match="inside the scope 'tree'"):
        ledger.begin(make_accountant(0.1, 0.0))
    ledger.charge("after", "gaussian", ledger.accountant.budget)


def test_deltas_of_books_add_up_to_that_of_the_ledger():
    ledger = ledger_of(2.0, 3 * DELTA)
    for _ in range(3):
        ledger.begin(make_accountant(0.5, DELTA))
        ledger.charge("step", "gaussian", ledger.accountant.budget)
    with pytest.raises(BudgetError):
        ledger.begin(make_accountant(0.1, DELTA))
    assert 1.5 * (1 - 1e-9) < ledger.spent <= 1.5


def test_mechanisms_run_at_the_strength_of_the_open_book():
    ledger = ledger_of(1.0, DELTA)
    gate, zeros = Gate(ledger, Entropy(0)), Sealed(np.zeros(4, dtype=np.int64))
    ledger.begin(make_accountant(0.25, 0.0))
    gate.add_noise(zeros, Sensitivity(1, 1), 0.25, "without")
    ledger.begin(make_accountant(0.5, DELTA))
    gate.add_noise(zeros, Sensitivity(1, 1), 1e-4, "with delta")
    assert [entry["mechanism"] for entry in ledger.entries()] == ["geometric", "gaussian"]


# --- round trips ----------------------------------------------------------------------------------------------------


def filled_books(leaks=False):
    ledger = two_books()
    with ledger.scope("tree 1", copies=2):
        ledger.charge("splits", "exponential", ledger.accountant.budget / 8)
    if leaks:
        ledger.leak("stop", "exact counts")
    return ledger


def filled(epsilon, delta, leaks):
    ledger = ledger_of(epsilon, delta)
    amount = min(ledger.accountant.budget / 100, 0.1)
    ledger.charge("rows", "geometric", amount / 3)
    with ledger.scope("trees", copies=3), ledger.scope("sample", "sequential" if delta else "bootstrap"):
        ledger.charge("splits ≤ 3", "permute-and-flip", amount)
    with ledger.scope("parts", "parallel"), ledger.scope("part"):
        ledger.charge("leaves", ledger.accountant.noise, amount)
    if leaks:
        ledger.leak("stop", "exact counts")
    return ledger


def without_privacy(delta):
    ledger = ledger_of(math.inf, delta)
    ledger.charge("leaves", "exact", math.inf)
    return ledger


def with_joint_noise(delta):
    ledger = ledger_of(1.0, delta)
    zeros, blocks = Sealed(np.zeros(7, dtype=np.int64)), Blocks((1, 3, 1, 2), 64)
    Gate(ledger, Entropy(0)).add_joint_noise(zeros, blocks, ledger.accountant.budget, Purpose("linear", "first look"))
    return ledger


KEPT = [
    *(filled(epsilon, delta, leaks) for epsilon, delta in [(1.0, 0.0), (0.3, DELTA)] for leaks in (False, True)),
    *(make(delta) for make in (without_privacy, with_joint_noise) for delta in (0.0, DELTA)), filled_books(),
    filled_books(leaks=True),
]  # fmt: skip


def test_a_ledger_comes_back_from_json_as_it_was():
    for ledger in KEPT:
        back = Ledger.from_json(ledger.to_json())
        assert back == ledger
        assert (back.epsilon, back.delta, back.spent) == (ledger.epsilon, ledger.delta, ledger.spent)
        assert (back.total, back.n_entries) == (ledger.total, ledger.n_entries)
        assert (back.entries(), back.leaks, back.to_json()) == (ledger.entries(), ledger.leaks, ledger.to_json())
    back.books[0].root.children[0] = Charge(Purpose("number of rows"), Mechanism("geometric"), 0.12)
    assert back != ledger
    with pytest.raises(ValueError, match="at least one book"):
        Ledger.from_dict(ledger.to_dict() | {"books": []})


def test_books_from_json_still_guard_what_is_left():
    back = Ledger.from_json(filled_books().to_json())
    with pytest.raises(BudgetError):
        back.charge("leaves", "gaussian", 0.76 * back.accountant.budget)
    with pytest.raises(BudgetError):
        back.begin(make_accountant(0.875, 0.0))
    back.charge("leaves", "gaussian", 0.74 * back.accountant.budget)
    assert back.spent <= 1.0


# --- books of fits --------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
X = RNG.random((300, 2))
Y = (X[:, 0] + 0.2 * RNG.random(300) > 0.6).astype(int)


def units(model):
    return [book.accountant.unit for book in model.ledger_.books]


def labels(book):
    return [child.label for child in book.root.children]


def test_with_delta_the_number_of_rows_has_its_own_pure_book_and_the_trees_the_other(tmp_path):
    model = DPForestClassifier(SCHEMA, 5.0, DELTA, random_state=1).fit(X, Y)
    assert units(model) == ["epsilon", "rho"]
    rows, trees = model.ledger_.books
    assert labels(rows) == ["number of rows"]
    assert rows.accountant.epsilon == pytest.approx(0.02 * 5.0)
    assert (rows.accountant.delta, trees.accountant.delta, model.ledger_.delta) == (0.0, DELTA, DELTA)
    assert 5.0 * (1 - 1e-9) < model.ledger_.spent <= 5.0
    model.save(tmp_path / "m.dpf")
    assert load_model(tmp_path / "m.dpf").ledger_ == model.ledger_


def test_with_delta_and_few_rows_both_books_are_pure_and_nothing_has_gaussian_noise():
    model = DPForestClassifier(SCHEMA, 0.5, DELTA, random_state=2).fit(X[:20], Y[:20])
    assert units(model) == ["epsilon", "epsilon"]
    assert {entry["mechanism"] for entry in model.ledger_.entries()} == {"geometric", "k-norm", "permute-and-flip"}
    assert 0.5 * (1 - 1e-9) < model.ledger_.spent <= 0.5
    assert all(book.accountant.delta == 0 for book in model.ledger_.books)


@pytest.mark.parametrize(("n_rows", "unit"), [(10, "epsilon"), (10**6, "rho")])
def test_a_public_number_of_rows_needs_one_book_only(n_rows, unit):
    schema = Schema(SCHEMA.features, SCHEMA.target, n_rows=n_rows)
    model = DPForestClassifier(schema, 0.5, DELTA, random_state=3).fit(X[:20], Y[:20])
    assert units(model) == [unit]
    assert "number of rows" not in [entry["label"] for entry in model.ledger_.entries()]
    assert 0.5 * (1 - 1e-9) < model.ledger_.spent <= 0.5


def test_which_book_follows_depends_on_the_released_number_of_rows_alone(monkeypatch):
    for released, expected in [(30, ["epsilon", "epsilon"]), (500_000, ["epsilon", "rho"])]:
        monkeypatch.setattr(Vault, "count", lambda self, released=released: Sealed(np.array([released])))
        for n_rows in (0, 20, 300):
            model = DPForestClassifier(SCHEMA, 1.0, DELTA, max_depth=1, random_state=4).fit(X[:n_rows], Y[:n_rows])
            assert units(model) == expected


def test_a_budget_whose_rest_is_too_small_is_refused_before_the_number_of_rows_is_bought():
    low, high = 1e-5, 1.0
    while high - low > 1e-9:  # the least epsilon that is not refused as a whole
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_rho(middle, DELTA) < SMALLEST["rho"] else (low, middle)
    make_accountant(high * 1.001, DELTA)
    model = DPForestClassifier(SCHEMA, high * 1.001, DELTA)
    with pytest.raises(ParameterError, match="Raise epsilon"):
        model.fit(X, Y)
    assert model.ledger_.entries() == []


def test_of_parallel_parts_the_first_of_the_dearest_has_the_share():
    ledger = ledger_of()
    with ledger.scope("parts", "parallel"):
        for amount in (0.25, 0.5, 0.5):
            ledger.charge("part", "geometric", amount)
    (root,) = shared([(ledger.root, ledger.accountant)], counted=True)
    assert [part.share for part in root.parts[0].parts] == [0, 1, 0]
