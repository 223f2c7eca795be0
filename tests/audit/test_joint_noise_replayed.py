"""Replays of joint noise: a record pays by the largest block that it moves, and blocks that move farther are found."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from tests.audit.broken import COUNTS, first_findings
from tests.support.encoded import opened

from dpforest.audit.replay import Fit, differences, replay_many, unpaid_moves
from dpforest.audit.subject import Subject
from dpforest.audit.tape import Tape, cost, largest_block
from dpforest.mechanisms import Entropy, Rate
from dpforest.parts.leaves import NoisyCounts
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.bounds import Blocks
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed

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
    assert "tests/audit/test_joint_noise_replayed.py" in bound.where


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


# --- whole fits -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JointCounts(NoisyCounts):
    """Counts in steps of a tenth, in one draw: a leaf is a block, of which a record is said to move ``stated`` steps."""

    stated: int = 10

    def release(self, statistics, amount, gate, target, label, most=1):
        n_leaves, n_classes = opened(statistics).shape
        blocks = Blocks((n_classes,) * n_leaves, self.stated * most)
        steps = statistics.map(lambda counts: 10 * counts.ravel())
        released, variances = gate.add_joint_noise(steps, blocks, amount, label)
        return released.reshape(n_leaves, n_classes) / (10 * most), float(variances[0]) / (10 * most) ** 2


JOINT = replace(COUNTS, name="random splits, joint counts", leaf=JointCounts())


@pytest.mark.slow
def test_a_fit_with_joint_noise_has_no_finding_and_one_record_uses_all_that_it_pays():
    replays = replay_many(Subject(JOINT), 30)
    assert (replays.findings, replays.n_refused) == ((), 0)
    assert 0.9 < replays.closest <= 1 + 1e-9


@pytest.mark.slow
def test_a_fit_that_states_blocks_a_tenth_too_small_is_caught_with_its_place():
    findings = first_findings(Subject(replace(JOINT, name="blocks too small", leaf=JointCounts(stated=9))))
    assert {"bound"} <= kinds(findings) <= {"bound", "charge", "loss"}
    assert all("tests/audit/test_joint_noise_replayed.py" in finding.where for finding in findings)
