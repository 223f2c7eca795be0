"""Replays of joint noise, learnt lists and secret samples: a record moves what is paid for, and cheap gates are found."""

import math
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from tests.audit.broken import COUNTS, SAMPLED, no_coins, with_gate, with_sample
from tests.audit.test_lower_bound import bound_on, chance_of_a_miss
from tests.support.chances import FAILURE, at_least, at_most, seed_coins
from tests.support.encoded import opened

from dpforest import Categorical, Classes, Numeric, Schema, get_recipe
from dpforest.audit.cases import Case, generate
from dpforest.audit.lower_bound import WITH
from dpforest.audit.replay import Fit, differences, replay, replay_many, unpaid_moves
from dpforest.audit.subject import Subject
from dpforest.audit.tape import Tape, cost, largest_block
from dpforest.growing import learnt
from dpforest.mechanisms import Entropy, Gaussian, Rate
from dpforest.mechanisms.thresholds import threshold
from dpforest.parts.sampling import SecretSample
from dpforest.privacy import gate as gates
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.amounts import divide_evenly
from dpforest.privacy.bounds import Blocks, Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.records.vault import Vault

SIZES, L1 = (1, 3, 2), 20
VALUES = np.array([100, 7, -3, 0, 12, 5])
# The first moves every block by all of its L1; the others less of them, or in other numbers.
MOVES = [[20, 0, -20, 0, 20, 0], [-20, 5, 10, -5, 0, 0], [0, 20, 0, 0, 0, 0], [1, 0, 0, 0, 2, -1], [0] * 6]


def asked(values, blocks, delta=0.0, script=None, gate=Gate, copies=1, epsilon=1.0):
    """A fit that asks for joint noise once; with a script it gets what was released there."""
    tape = Tape(3, extra_first=False, script=script, has_extra=script is not None)
    watched = tape.watch(gate(Ledger(make_accountant(epsilon, delta)), Entropy(3)))
    amount = watched.ledger.accountant.budget / copies
    with watched.ledger.scope("each", copies=copies) if copies > 1 else nullcontext():
        released, _ = watched.add_joint_noise(Sealed(np.array(values)), blocks, amount, "sums")
    return Fit(tape, {"released": released.tolist()})


def pair(move, blocks=Blocks(SIZES, L1), **how):  # noqa: B008
    first = asked(VALUES, blocks, **how)
    return first, asked(VALUES + move, blocks, script=first.tape.queries, **how)


def kinds(findings):
    return {finding.kind for finding in findings}


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_moves_within_their_blocks_are_paid_for_by_the_largest(move):
    for delta in (1e-6, 0.0):
        first, second = pair(move, delta=delta)
        assert differences(first, second) == unpaid_moves(first, second) == []
        assert first.public == second.public
    (one,), (two,) = first.tape.queries, second.tape.queries
    (run,) = one.runs
    assert (run.mechanism, run.sizes, one.stated) == ("k-norm", SIZES, Blocks(SIZES, L1))
    blocks = [abs(move[0]), sum(map(abs, move[1:4])), sum(map(abs, move[4:]))]
    assert largest_block(np.array(move), SIZES) == max(blocks)
    assert cost(one, two) == cost(two, one) == run.spread * max(blocks)
    used = float(cost(one, two) / Fraction(one.amount))
    assert used <= 1
    assert max(blocks) < L1 or used > 1 - 1 / 60_000


def test_with_delta_joint_noise_costs_by_all_blocks_together():
    first, second = pair(MOVES[0], delta=1e-6)
    (one,), (two,) = first.tape.queries, second.tape.queries
    assert one.runs[0].mechanism == "gaussian"
    assert cost(one, two) == Fraction(3 * L1**2) / (2 * one.runs[0].spread)
    assert 1 - 1e-5 < cost(one, two) / Fraction(one.amount) <= 1


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("move", MOVES[:3], ids=str)
def test_blocks_whose_l1_is_stated_a_tenth_too_small_are_found(move, delta):
    findings = unpaid_moves(*pair(move, Blocks(SIZES, 18), delta=delta))
    # With delta, blocks that move less pay for one that moves more, so that the charge may do; the bound is passed.
    paid = delta > 0 and move != MOVES[0]
    assert kinds(findings) == ({"bound"} if paid else {"bound", "charge", "loss"})
    (bound,) = [finding for finding in findings if finding.kind == "bound"]
    assert (bound.what, bound.detail) == ("values of 'sums'", "a block moves by 20 in L1, stated 1 x 18")
    assert "tests/audit/test_releases_replayed.py" in bound.where


def test_numbers_that_move_together_are_no_cheaper_as_blocks_of_their_own():
    # Each number moves by at most 10, but the two of one block by 20: as blocks of one, all is within the bound.
    move = [0, 10, -10, 0, 0, 0]
    assert unpaid_moves(*pair(move, Blocks((1,) * 6, 10))) == []
    assert kinds(unpaid_moves(*pair(move, Blocks(SIZES, 10)))) == {"bound", "charge", "loss"}


@pytest.mark.parametrize(("move", "is_found"), [(40, False), (41, True)])
def test_a_charge_that_stands_for_two_trees_pays_for_twice_the_move(move, is_found):
    findings = unpaid_moves(*pair([move, 0, 0, 0, 0, 0], copies=2))
    assert ("bound" in kinds(findings)) == is_found


class FreeGate(Gate):
    """Joint noise for which nobody pays."""

    def add_joint_noise(self, values, blocks, amount, purpose):
        with patch.object(self.ledger, "charge"):
            return super().add_joint_noise(values, blocks, amount, purpose)


def test_a_gate_that_does_not_pay_for_joint_noise_is_found():
    assert kinds(unpaid_moves(*pair(MOVES[0], gate=FreeGate))) == {"charge", "loss"}


def test_sizes_of_blocks_that_follow_from_rows_are_found():
    first = asked(VALUES, Blocks(SIZES, L1))
    second = asked(VALUES, Blocks((3, 1, 2), L1), script=first.tape.queries)
    (finding,) = differences(first, second)
    assert (finding.kind, finding.what) == ("question", "bound of 'sums'")


def test_joint_noise_that_nobody_asked_for_is_a_question_without_a_charge():
    def ask(values, script=None):
        tape = Tape(3, extra_first=False, script=script, has_extra=script is not None)
        gate = tape.watch(Gate(Ledger(make_accountant(1.0, 0.0)), Entropy(3)))
        gate._add_joint_noise(np.array(values), SIZES, Rate(1, 40))
        return Fit(tape)

    first = ask(VALUES)
    (query,) = first.tape.queries
    assert (query.label, query.n_charges, query.runs[0].sizes) == ("k-norm outside of a question", 0, SIZES)
    assert kinds(unpaid_moves(first, ask(VALUES + MOVES[0], first.tape.queries))) == {"charge", "loss"}


# --- lists that are learnt -------------------------------------------------------------------------------------------

SCHEMA = Schema({"a": Categorical(learn=True), "b": Categorical(learn=True), "c": Categorical([0, 1])}, Classes([0, 1]), 60)
ROWS = tuple((*row, label) for row in [("x", 7, 0)] * 20 + [("y", "z", 1)] * 8 + [(None, "rare", 0)] for label in (0, 1))
# A value that others have, one that nobody has, a missing one, and some that have no text.
EXTRAS = [("x", 7, 0, 1), ("new", "newer", 1, 0), ("x", "only here", 0, 0), (None, [1], 0, 1), (b"x", 3.5, None, 0)]
CASES = [Case(seed, SCHEMA, ROWS, extra, seed % 2 == 0, seed % 3 == 0, 8.0, 0.05, 1, 1) for seed, extra in enumerate(EXTRAS)]
SOUND = {
    "zCDP": COUNTS,
    "pure but for lists": replace(COUNTS, without_delta=True),
    "bootstrap": replace(get_recipe("patil-singh-2014"), n_trees=1),
}


def findings_of(recipe, gate=Gate):
    subject = Subject(recipe, classifier=with_gate(gate))
    return [finding for case in CASES for finding in replay(subject, case)[1]]


@pytest.mark.parametrize("name", SOUND)
def test_fits_that_learn_lists_tell_neighbours_apart_by_what_they_paid_for_alone(name):
    assert findings_of(SOUND[name]) == []
    fits, _ = replay(Subject(SOUND[name]), CASES[1])
    lists = [query for query in fits[0].tape.queries if query.purpose.kind == "list of values"]
    assert [query.purpose.step for query in lists] == ["a", "b"]
    assert any(run.named for query in lists for run in query.runs)
    assert {query.runs[0].mechanism for query in lists} == {"gaussian" if name == "zCDP" else "geometric"}


class LoudGate(Gate):
    """Noise of lists that is a fifth too small."""

    def _named(self, counts, scale, least):
        if isinstance(scale, Rate):
            return super()._named(counts, Rate.below(Fraction(5 * scale.numerator, 4 * scale.denominator)), least)
        return super()._named(counts, Gaussian.rounded(scale * Fraction(16, 25)), least)


class GenerousGate(Gate):
    """Names every value that occurs."""

    def _named(self, counts, scale, least):
        return super()._named(counts, scale, -(10**9))


class GreedyGate(Gate):
    """Takes twenty times the delta that was asked for, and enters none."""

    def name_frequent(self, counts, amount, delta, purpose):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gates, "THRESHOLD_DELTA", "forgotten")
            return super().name_frequent(counts, amount, 20 * delta, purpose)


@pytest.mark.parametrize("recipe", ["zCDP", "pure but for lists"])
@pytest.mark.parametrize(("gate", "kind"), [(LoudGate, "question"), (GenerousGate, "bound"), (GreedyGate, "bound")])
def test_a_gate_that_names_more_than_it_pays_for_is_caught(recipe, gate, kind):
    assert {finding.kind for finding in findings_of(SOUND[recipe], gate)} == {kind}


def test_lists_whose_deltas_add_up_to_more_than_their_book_has_are_caught(monkeypatch):
    monkeypatch.setattr(Ledger, "_check_thresholds", lambda *_: None)
    monkeypatch.setattr(
        learnt, "divide_evenly", lambda amount, n: amount if amount == CASES[0].delta else divide_evenly(amount, n)
    )
    found = findings_of(SOUND["pure but for lists"])
    assert {(finding.kind, finding.where) for finding in found} == {("loss", "lists")}


@pytest.mark.parametrize("recipe", ["zCDP", "pure but for lists"])
def test_a_threshold_that_is_one_too_small_is_caught_where_one_table_has_a_new_value(recipe, monkeypatch):
    monkeypatch.setattr(gates, "threshold", lambda *how: threshold(*how) - 1)
    found = findings_of(SOUND[recipe])
    assert {(finding.kind, finding.what) for finding in found} == {
        ("bound", f"delta of 'list of values: {name}'") for name in "ab"
    }
    assert {finding.case.extra for finding in found} == {EXTRAS[1], EXTRAS[2]}


# --- secret samples --------------------------------------------------------------------------------------------------

# Twins whose samples move with a record, or are charged too little, are in ``test_replay.py``. Whether a release from one
# record or none is above 0 has a chance that is known exactly, and tests say how far what is counted may be from it.

HALF = Fraction(1, 2)

# --- replays --------------------------------------------------------------------------------------------------------


def replayed_on_sample(subject, seed):
    """What ``replay_many`` does with a case whose number is one below a multiple of four."""
    case = generate(seed, subject.parts.tasks)
    return case, *replay(subject.on_sample(len(case.rows) / 2), case)


@pytest.mark.slow
def test_the_default_recipe_is_replayed_on_samples_too_and_nothing_is_found():
    subject, seen = Subject("auto"), []
    for seed in range(3, 84, 4):
        case, (first, second), findings = replayed_on_sample(subject, seed)
        assert [str(finding) for finding in findings] == []
        books = first.tape.books
        assert books == second.tape.books
        if books[-1].accountant.share < 1:
            seen.append((books[-1].accountant.unit, case.schema.n_rows is None, subject.parts.task(case.schema)))
            assert "sample drawn" in first.public["progress"]
            assert sum(book.accountant.share < 1 for book in books) == 1
    # Pure and zCDP, of measured and of declared numbers of rows, classes and numbers.
    assert len(seen) > 10
    assert [len({*kinds}) for kinds in zip(*seen, strict=True)] == [2, 2, 2]


@pytest.mark.slow
def test_every_fourth_case_of_a_recipe_that_draws_samples_is_on_one(monkeypatch):
    asked, on_sample = [], Subject.on_sample
    monkeypatch.setattr(Subject, "on_sample", lambda self, rows: asked.append(rows) or on_sample(self, rows))
    replays = replay_many(Subject("auto"), 9)
    assert (replays.findings, replays.n_refused) == ((), 0)
    assert asked == [len(generate(seed, ("classification", "regression")).rows) / 2 for seed in (3, 7)]
    replay_many(Subject(COUNTS), 4)
    assert len(asked) == 2


def test_a_subject_knows_whether_its_recipe_draws_samples():
    assert Subject("auto").draws_samples
    assert not Subject("auto").on_sample(5.0).draws_samples  # which is asked for, and not planned
    assert not Subject("consul-2020").draws_samples
    assert not Subject("dong-2022", variant="published").draws_samples
    assert Subject("auto").on_sample(0.0).parts.secret_sample == SecretSample(1.0)
    assert Subject("consul-2020").on_sample(7.5).parts.secret_sample == SecretSample(7.5)


@pytest.mark.slow
def test_one_record_uses_all_that_is_charged_on_a_sample():
    replays = replay_many(Subject(SAMPLED), 40)
    assert (replays.findings, replays.n_refused) == ((), 0)
    assert 0.99 < replays.closest <= 1 + 1e-9


@pytest.mark.slow
def test_a_fit_that_draws_no_sample_and_charges_for_one_is_caught():
    assert replay_many(Subject(SAMPLED, classifier=with_sample(no_coins)), 20).findings


# --- a release, many times ------------------------------------------------------------------------------------------

EPSILON, N_MANY = 1.0, 30_000
ONE_NUMBER = Schema({"x": Numeric(0, 1)}, Classes([0, 1]))
TABLES = [Vault.seal(np.zeros((n_rows, 1)), np.zeros(n_rows), ONE_NUMBER) for n_rows in (0, 1)]
# What may be spent on a sample of one half, and with which chances 0 and 1 are above 0 then, once they have geometric noise.
INSIDE = math.log1p(math.expm1(EPSILON) / 0.5)
ABOVE = [1 / (1 + math.exp(INSIDE)), 1 / (1 + math.exp(-INSIDE))]


def are_positive(samples):
    """Which of the samples of tables have a number of records above 0, once it has noise: one release for each table."""
    ledger = Ledger(make_accountant(EPSILON, 0.0, share=HALF))
    counts = Sealed(np.concatenate([opened(sample.count()) for sample in samples]))
    # The tables have no record in common, so that one charge serves for all of them.
    released, _ = Gate(ledger, Entropy()).add_noise(counts, Sensitivity(1, 1), ledger.accountant.budget, "counts")
    assert 0.999 * EPSILON < ledger.spent <= EPSILON
    return released > 0


def hits_of(draw, n_releases):
    """How many of so many releases are above 0, without a record and with one."""
    entropy = Entropy()
    return [are_positive([draw(table, HALF, entropy) for _ in range(n_releases)]).sum() for table in TABLES]


def limits(n_releases, *shares):
    """For each share the least and the largest number of hits that a release has, all but once in a million."""
    failure = FAILURE / (2 * len(shares))
    return [(at_least(n_releases, share, failure), at_most(n_releases, share, failure)) for share in shares]


@pytest.mark.slow
def test_releases_from_secret_samples_lose_nearly_all_that_is_claimed_and_no_more():
    mixed = (ABOVE[0] + ABOVE[1]) / 2
    assert math.log(mixed / ABOVE[0]) == pytest.approx(EPSILON)
    assert math.log(ABOVE[1] / ABOVE[0]) == pytest.approx(INSIDE)
    assert make_accountant(EPSILON, 0.0, share=HALF).budget == pytest.approx(INSIDE)
    (least_without, most_without), (least, most) = limits(N_MANY, ABOVE[0], mixed)
    without, with_record = hits_of(Vault.sampled, N_MANY)
    assert least_without <= without <= most_without
    assert least <= with_record <= most
    # Shares that are within these limits are never those of a loss that is a tenth smaller.
    assert 0.9 * EPSILON < math.log(least / most_without) <= math.log(with_record / without)


# --- whole fits -----------------------------------------------------------------------------------------------------

# Of tables that are said to have 20 rows, a sample of one sixteenth.
SIXTEENTH = replace(COUNTS, name="a sixteenth", secret_sample=SecretSample(1.25))
SPENT_THERE = math.log1p(16 * math.expm1(1.0))


@pytest.fixture
def seeded(monkeypatch):
    seed_coins(monkeypatch)


@pytest.mark.slow
def test_a_fit_that_draws_no_sample_and_charges_for_one_is_refuted_by_statistics(seeded):
    bound = bound_on(Subject(SIXTEENTH, classifier=with_sample(no_coins)), "empty table", 800)
    shares = 1 / (1 + math.exp(-SPENT_THERE)), 1 / (1 + math.exp(SPENT_THERE))
    assert chance_of_a_miss(*shares, bound.n_tested, bound.claimed) < FAILURE
    assert bound.exceeds
    assert bound.likelier == WITH


@pytest.mark.slow
def test_a_fit_on_a_secret_sample_is_not_refuted(seeded):
    assert not bound_on(Subject(SIXTEENTH), "empty table", 400, confidence=1 - FAILURE).exceeds
