"""The attack finds what is there to be found, stays within what a kept claim allows, and its pictures can be drawn.

Limits are of 99.9 %. Forests and stand-ins are seeded, so a test passes always or never; no seed was chosen by its result.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.support.chances import seed_coins
from tests.support.crosses import pairwise

from dpforest import Bounded, Categorical, Classes, Date, Numeric, Schema
from dpforest.audit.attack import World, attack, exposed_record, most_allowed, realistic_table
from dpforest.audit.report import draw_evidence, draw_trade_off
from dpforest.audit.subject import Subject
from dpforest.datasets import NoSuchTable
from dpforest.errors import ParameterError
from dpforest.growing.grower import Growth
from dpforest.parts.postprocess import plain_shares
from dpforest.records.columns import read_columns
from dpforest.records.encoding import encode
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

FEATURES = {"age": Numeric(0, 100), "sex": Categorical(["m", "f"]), "town": Categorical(["a", "b", "c"])}
N_ROWS = 60


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    seed_coins(monkeypatch)


def small_table(n_classes=2):
    rng = np.random.default_rng(0)
    rows = zip(rng.uniform(0, 60, N_ROWS), rng.choice(["m", "f"], N_ROWS), rng.choice(["a", "b"], N_ROWS), strict=True)
    return [list(row) for row in rows], rng.integers(0, n_classes, N_ROWS), Schema(FEATURES, Classes(range(n_classes)))


class NoisyRoot:
    """Releases the class counts of all records with geometric noise: no attack does better than the claim allows, and the
    best one does as well. ``factor`` times the claimed epsilon is what it really loses."""

    factor = 1.0
    rng = np.random.default_rng(0)

    def __init__(self, schema, epsilon, **parameters):
        self.schema, self.epsilon = schema, epsilon

    def fit(self, X, y):
        labels = self.schema.target.labels
        counts = np.array([[sum(label == value for value in y.to_pylist()) for label in labels]])
        share = 1 - math.exp(-self.factor * self.epsilon)
        noise = self.rng.geometric(share, counts.shape) - self.rng.geometric(share, counts.shape)
        forest = Growth(Domain.of(self.schema, Grid()), 1).finish(self.schema.target)
        forest = plain_shares(forest.with_counts(np.array([0]), counts + noise, 2 * (1 - share) / share**2).summed())
        self.forest_ = replace(forest, votes=forest.shares)
        return self


class TooLittleNoise(NoisyRoot):
    factor = 4.0


def attack_stand_in(kind, seed, epsilon=1.0, n_fits=500):
    kind.rng = np.random.default_rng(seed)
    X, y, schema = small_table()
    subject = Subject("jagannathan-2009", epsilon=epsilon, classifier=kind)
    return attack(subject, X[:10], y[:10], schema, "small", n_fits=n_fits, n_jobs=1)


@pytest.fixture(scope="module")
def kept():
    return attack_stand_in(NoisyRoot, seed=0)


def test_the_limit_is_the_trade_off_of_randomised_response():
    epsilon, delta = 1.3, 0.02
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    # It fails with probability delta, else it tells the truth with probability ``keep``.
    tells = delta + (1 - delta) * keep
    lies = (1 - delta) * (1 - keep)
    assert most_allowed(lies, epsilon, delta) == pytest.approx(tells)
    assert most_allowed(0.0, epsilon, delta) == pytest.approx(delta)
    assert most_allowed(1 - delta, epsilon, delta) == pytest.approx(1)


def test_without_loss_nothing_but_delta_is_gained_and_without_a_promise_everything():
    rates = np.linspace(0, 1, 21)
    for delta in (0.0, 0.3):
        np.testing.assert_allclose(most_allowed(rates, 0.0, delta), np.minimum(rates + delta, 1))
    for epsilon, delta in ((math.inf, 0.0), (0.5, 1.0)):
        np.testing.assert_array_equal(most_allowed(rates, epsilon, delta), 1.0)
        assert most_allowed(0.01, epsilon, delta) == 1.0
    np.testing.assert_array_equal(most_allowed(np.array([0.0, 0.01]), 1e6, 0.0), [0.0, 1.0])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_kept_claim_is_never_exceeded(seed):
    assert not attack_stand_in(NoisyRoot, seed).exceeds


def test_rates_lie_within_their_limits_and_can_be_kept_as_json(kept):
    assert kept.tpr_low <= kept.tpr_at_1_percent <= kept.tpr_high
    assert kept.fpr_tested <= kept.fpr_high
    assert kept.allowed == pytest.approx(0.01 * math.e)
    assert (np.diff(kept.fpr) >= 0).all()
    assert (np.diff(kept.tpr) >= 0).all()
    content = json.loads(json.dumps(replace(kept, epsilon=math.inf).to_dict()))
    assert (content["epsilon"], content["exceeds"], content["canary"]) == ("inf", False, kept.canary)
    assert len(content["fpr"]) == len(kept.fpr)


def test_the_attack_comes_close_to_the_known_trade_off():
    found = attack_stand_in(NoisyRoot, seed=4, epsilon=3.0, n_fits=1000)
    rates = np.array([0.05, 0.1, 0.2])
    reached = np.interp(rates, found.fpr, found.tpr)
    assert (reached > 0.8 * most_allowed(rates, 3.0, 0.0)).all()


def test_a_broken_claim_is_exceeded():
    assert attack_stand_in(TooLittleNoise, seed=5, n_fits=800).exceeds


def test_an_exact_fit_is_found_out_and_a_private_one_is_not():
    exact, private, planned = (
        attack(Subject(name, epsilon=epsilon), *small_table(), "small", n_fits=n_fits, n_jobs=1)
        for name, epsilon, n_fits in [
            ("jagannathan-2009", math.inf, 120),
            ("jagannathan-2009", 1.0, 240),
            ("auto", 1.0, 240),
        ]
    )
    assert exact.tpr_at_1_percent > 0.9
    assert exact.tpr_low > private.tpr_high
    assert not any(found.exceeds for found in (exact, private, planned))


@pytest.mark.parametrize(
    ("recipe", "n_classes", "planted"),
    pairwise(["auto", "friedman-schuster-2010", "jagannathan-2009"], [2, 3], [False, True]),
)
def test_without_noise_the_other_records_explain_all_counts_but_the_canarys(recipe, n_classes, planted):
    X, y, schema = small_table(n_classes)
    world = World.plant(Subject(recipe, epsilon=math.inf), X, y, schema, exposed_record(X, y, schema))
    n_rows = N_ROWS + planted
    forest = world.subject.estimator(schema).fit(world.features[:n_rows], world.target[:n_rows]).forest_
    excess, weights, _ = world._excess(forest, encode(read_columns(world.features, schema), forest.domain))
    np.testing.assert_allclose(excess[:, world.own], planted * weights, atol=1e-6)


def test_the_canary_is_where_records_are_rare():
    X, y, schema = small_table()
    assert exposed_record(X, y, schema) == exposed_record(X, y, schema)
    canary = exposed_record(X, np.zeros(N_ROWS, dtype=int), schema)
    assert canary["age"] == 100
    assert canary["town"] == "c"
    assert canary["target"] == 1
    assert list(canary) == [*FEATURES, "target"]


@pytest.mark.parametrize("values", [["a", "b"], [1, 2], [True, False]], ids=["text", "numbers", "truths"])
def test_without_a_list_the_canary_is_in_the_rarest_bucket(values):
    schema = Schema({"c": Categorical()}, Classes([0, 1]))
    X, y = [[value] for value in [*values, *values, values[0], None]], [0, 1] * 3
    world = World.plant(Subject("auto", epsilon=1.0), X, y, schema, exposed_record(X, y, schema))
    *others, own = encode(read_columns(world.features, schema), Domain.of(schema, Grid()))[0].tolist()
    assert own < Categorical().n_values
    assert others.count(own) == (2 if isinstance(values[0], bool) else 0)


@pytest.mark.parametrize("time", [False, True])
def test_a_date_is_attacked_at_its_far_bound(time):
    schema = Schema({"seen": Date("2020-01-01", "2024-12-31", time=time)}, Classes([0, 1]))
    X, y = [["2020-02-03"], ["2020-03-04T12:00"], ["no date"], [None]] * 5, np.zeros(20, dtype=int)
    canary = exposed_record(X, y, schema)
    assert canary == {"seen": "2024-12-31T00:00" if time else "2024-12-31", "target": 1}
    world = World.plant(Subject("jagannathan-2009"), X, y, schema, canary)
    codes = encode(read_columns(world.features, schema), Domain.of(schema, Grid()))
    expected = encode(read_columns([*X, [canary["seen"]]], schema), Domain.of(schema, Grid()))
    np.testing.assert_array_equal(codes, expected)
    assert len(world.look(planted=True))


def test_a_number_is_attacked_at_its_far_bound():
    X, _, _ = small_table()
    schema = Schema(FEATURES, Bounded(0, 10))
    y = np.full(N_ROWS, 2.5)
    assert exposed_record(X, y, schema)["target"] == 10
    found = attack(Subject("consul-2020", epsilon=math.inf), X, y, schema, "small", n_fits=80, n_jobs=1)
    assert found.tpr_at_1_percent > 0.9


def test_what_cannot_be_attacked_is_refused():
    X, y, schema = small_table()
    with pytest.raises(ParameterError, match="at least 80 fits"):
        attack(Subject("auto"), X, y, schema, "small", n_fits=10)


def test_realistic_tables_are_the_survey_and_the_benchmark_tables(monkeypatch):
    monkeypatch.delenv("DPFOREST_DATA", raising=False)
    with pytest.raises(NoSuchTable):
        realistic_table("no-such-table")
    pytest.importorskip("statsmodels")
    X, y, schema = realistic_table("survey")
    assert len(X) == len(y) == 6366
    assert list(X.columns) == list(schema.features)


def test_trade_off_and_evidence_are_drawn(kept, tmp_path):
    pytest.importorskip("matplotlib")
    drawn = [kept, replace(kept, epsilon=math.inf, allowed=1.0), replace(kept, recipe="auto", delta=1e-6)]
    attacks = [each.to_dict() for each in drawn]
    for some in (attacks[:1], attacks):
        draw_trade_off(some, tmp_path / "trade-off.png")
        assert (tmp_path / "trade-off.png").stat().st_size > 10_000
    bounds = [{"claimed": 1.0, "epsilon": epsilon, "exceeds": epsilon > 1} for epsilon in (0.0, 8.0)]
    audits = [{"recipe": "mine", "variant": "private", "lower_bound": bound} for bound in (*bounds, None)]
    draw_evidence(audits, tmp_path / "evidence.png")
    assert (tmp_path / "evidence.png").stat().st_size > 5_000
