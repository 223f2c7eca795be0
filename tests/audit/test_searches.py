"""The audit attacks whole searches: nothing is found in a sound one, and a search that forgets what runs cost is found.

Coins are seeded, so a test passes always or never; no seed was chosen by what it gives.
"""

import pytest
from tests.support.chances import FAILURE, seed_coins

from dpforest import DPSearchCV
from dpforest.audit import RACE, SearchSubject
from dpforest.audit.fits import CANDIDATE, observe
from dpforest.audit.lower_bound import lower_bound
from dpforest.mechanisms import Logarithmic

N_RUNS = 6


class OfManyRuns(Logarithmic):
    """A broken twin: always so many runs, each at the whole epsilon, of which the best costs no more than one."""

    def draw(self, entropy):
        return N_RUNS

    def of_one_run(self, epsilon):
        return epsilon


class ForgetfulSearch(DPSearchCV):
    """A search that does not pay for its runs."""

    def _check_parameters(self):
        law, schema = super()._check_parameters()
        return OfManyRuns(law.gamma), schema


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    seed_coins(monkeypatch)


def test_what_is_seen_of_a_search_is_its_model_its_candidate_and_its_score():
    subject = SearchSubject(epsilon=2.0, space={"max_depth": [1, 2]})
    (seen,) = observe(subject, [RACE], 3, n_jobs=1)
    *_, candidate, score = seen.columns
    assert (candidate.name, score.name) == (CANDIDATE, "score of the best run")
    assert set(candidate.labels.values()) <= {"is {'max_depth': 1}", "is {'max_depth': 2}"}
    assert ((seen.without[:, -1] > 0) & (seen.without[:, -1] <= 1)).all()


@pytest.mark.slow
def test_a_search_that_does_not_pay_for_its_runs_is_found():
    """By a simulation of the noise alone, a score of at most 0.78 has shares of 0.57 with the record and 0.02 without."""
    subject = SearchSubject(epsilon=2.0, search=ForgetfulSearch)
    found = lower_bound(subject, [RACE], 800, 0.8, n_jobs=1)
    assert found.exceeds, found
    assert "score of the best run" in found.event


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_nothing_is_found_in_a_sound_search(delta):
    """Each fails with a chance of at most ``FAILURE`` for another seed."""
    subject = SearchSubject(epsilon=2.0, delta=delta)
    found = lower_bound(subject, [RACE], 120, 1 - FAILURE, n_jobs=1)
    assert not found.exceeds, found
