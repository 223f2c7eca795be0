"""Secret samples under audit: replays have cases on them, and what they lose is all that is claimed and no more.

Twins whose samples move with a record, or are charged too little, are in ``tests/audit/test_replay.py``; here are those
whose mistake no bound shows. Whether a release from one record or none is above 0 has a chance that is known exactly, and
tests say how far what is counted may be from it.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.audit.broken import COUNTS, SAMPLED, no_coins, with_sample
from tests.audit.test_lower_bound import bound_on, chance_of_a_miss
from tests.support.chances import FAILURE, at_least, at_most, seed_coins
from tests.support.encoded import opened

from dpforest import Classes, Numeric, Schema
from dpforest.audit.cases import generate
from dpforest.audit.lower_bound import WITH
from dpforest.audit.replay import replay, replay_many
from dpforest.audit.subject import Subject
from dpforest.mechanisms import Entropy
from dpforest.parts.sampling import SecretSample
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.records.vault import Vault

HALF = Fraction(1, 2)

# --- replays --------------------------------------------------------------------------------------------------------


def replayed_on_sample(subject, seed):
    """What ``replay_many`` does with a case whose number is one below a multiple of four."""
    case = generate(seed, subject.tasks)
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
SCHEMA = Schema({"x": Numeric(0, 1)}, Classes([0, 1]))
TABLES = [Vault.seal(np.zeros((n_rows, 1)), np.zeros(n_rows), SCHEMA) for n_rows in (0, 1)]
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
