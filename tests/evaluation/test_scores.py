"""Scores: exact ones are those of scikit-learn, released ones lie in their bands, and persons are scored as persons."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import metrics
from tests.support.chances import at_least, at_most, seed_coins
from tests.support.encoded import opened
from tests.support.scored import FEATURES, LABELS, rows, two

from dpforest import Bounded, Budget, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import ParameterError, TableError
from dpforest.evaluation import evaluate_privately, evaluate_public, scoring
from dpforest.evaluation.cells import Cells
from dpforest.evaluation.scoring import _evaluation, _release, score_exactly
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.records.people import People, ids_beside

KINDS = ["classifier", "classifier_of_two", "regressor"]


def parts(X, y):
    """In two parts, one of them empty in the middle."""
    return [(X[:1000], y[:1000], None), (X[:0], y[:0], None), (X[1000:], y[1000:], None)]


def named(scores):
    return {score.name: score for score in scores}


def test_exact_scores_of_classes_are_those_of_scikit_learn(classifier):
    model, X, y = classifier
    evaluation = evaluate_public(model, X, y)
    found = {name: score.value for name, score in named(evaluation.scores).items()}
    kept = pd.notna(y)
    true, X = y[kept].astype(str), X[kept]
    predicted = model.predict(X)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(true, predicted))
    assert found["log loss"] == pytest.approx(metrics.log_loss(true, np.clip(model.predict_proba(X), 2.0**-53, 1)), rel=1e-6)
    scores = {"recall": metrics.recall_score, "precision": metrics.precision_score, "F1": metrics.f1_score}
    for label in LABELS:
        for name, score in scores.items():
            exact = score(true, predicted, labels=[label], average="macro", zero_division=np.nan)
            assert found[f"{name} of '{label}'"] == pytest.approx(exact, nan_ok=True)
    confusion = metrics.confusion_matrix(true, predicted, labels=LABELS)
    assert np.array_equal(evaluation.details["confusion"]["counts"], confusion)


def test_exact_scores_of_two_classes_are_those_of_scikit_learn(classifier_of_two):
    model, X, y = classifier_of_two
    found = named(evaluate_public(model, X, y).scores)
    kept = pd.notna(y)
    shares, true = model.predict_proba(X[kept])[:, 1], y[kept] == "b"
    assert found["area under the curve"].value == pytest.approx(metrics.roc_auc_score(true, shares))
    assert found["Brier score"].value == pytest.approx(metrics.brier_score_loss(true, shares))
    assert found["accuracy"].value == pytest.approx(metrics.accuracy_score(y[kept].astype(str), model.predict(X[kept])))
    assert {score.margin for score in found.values()} == {score.binning for score in found.values()} == {0.0}


def test_exact_scores_of_a_number_are_those_of_scikit_learn(regressor):
    model, X, y = regressor
    found = {score.name: score.value for score in evaluate_public(model, X, y).scores}
    kept = ~np.isnan(y)
    true, predicted = np.clip(y[kept], 0, 10), model.predict(X[kept])
    assert found["mean absolute error"] == pytest.approx(metrics.mean_absolute_error(true, predicted), abs=1e-3)
    assert found["root mean square error"] == pytest.approx(metrics.root_mean_squared_error(true, predicted), abs=1e-3)
    assert found["R2"] == pytest.approx(metrics.r2_score(true, predicted), abs=1e-3)


@pytest.mark.slow
def test_exact_figures_of_two_models_take_targets_as_they_are(monkeypatch):
    seed_coins(monkeypatch)
    rng, X = rows(4)
    y = 10 * X["x"].to_numpy() + rng.normal(0, 1, len(X))
    y[::300] = 1000.0  # beyond the range that a fit finds
    schema = Schema(FEATURES, Bounded(0, 1000))
    model, other = (DPForestRegressor(schema, epsilon=epsilon).fit(X, y) for epsilon in (20.0, 10.0))
    assert model.forest_.target.range[1] < 1000
    found = evaluate_public(model, X, y, compare=other)
    errors = [np.abs(each.predict(X) - np.maximum(y, 0)) for each in (model, other)]
    own, compared = found.scores[0], named(found.details["comparison"]["scores"])
    assert own.value == pytest.approx(errors[0].mean())
    assert own.sampling == pytest.approx(1.96 * errors[0].std() / math.sqrt(len(y)), rel=1e-3)
    assert compared["mean absolute error of the other model"].value == pytest.approx(errors[1].mean())
    difference = compared[found.details["comparison"]["difference"]]
    assert difference.value == pytest.approx((errors[0] - errors[1]).mean())
    assert difference.sampling == pytest.approx(1.96 * (errors[0] - errors[1]).std() / math.sqrt(len(y)), rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_without_noise_are_the_exact_ones_but_for_bins(kind, request):
    model, X, y = request.getfixturevalue(kind)
    exact = named(score_exactly(Cells.of(model, None, None, 0.5), parts(X, y)).scores)
    released = evaluate_privately(model, X, y, math.inf).scores
    assert {score.name for score in released} - {"log loss of rounded shares"} <= exact.keys()
    for score in released:
        if score.name in exact:
            assert score.value == pytest.approx(exact[score.name].value, abs=score.binning + 1e-3, nan_ok=True)
            assert score.margin == 0 or math.isnan(score.value)
        if score.binning:
            assert 0 < abs(score.value - exact[score.name].value) <= score.binning < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_private_score_is_charged_once_whatever_is_asked(kind, request):
    model, X, y = request.getfixturevalue(kind)
    found = evaluate_privately(model, X, y, 0.5, by="z", compare=model)
    assert found.epsilon == 0.5
    (entry,) = found.ledger.entries()
    assert (entry["mechanism"], entry["epsilon"]) == ("geometric", 0.5)


@dataclass(frozen=True)
class Counted(Cells):
    """Cells of records that were counted before, so that many releases of them take little time."""

    exact: np.ndarray | None = None

    def count(self, parts, people=None):
        return Sealed(self.exact)


@pytest.fixture
def undigested(monkeypatch):
    """Evaluations do not hash their models, which takes longer than the rest of them."""
    monkeypatch.setattr(scoring, "model_digest", lambda model: None)


def counted(model, X, y, by="z", compare=None):
    cells = Cells.of(model, by, compare, 0.5)
    return Counted(cells.model, cells.other, cells.by, exact=opened(cells.count([(X, y, None)])))


def released(cells, epsilon):
    return _release(cells, (), Ledger(make_accountant(epsilon, 0.0)))


def is_calibrated(cells, epsilon, charged):
    """Whether the noise of some releases is as wide as the charge asks for, within 5.5 standard errors of a variance.

    The fourth moment of two-sided geometric noise is at most 6 times the squared variance, or little more where the
    variance is small, so the variance of n draws varies by 5 / n of its square: the chance to be further off is below 1e-6.
    """
    exact = released(cells, math.inf).counts
    n_runs = -(-20_000 // exact.size)
    noise = [released(cells, epsilon).counts - exact for _ in range(n_runs)]
    wanted = 2 * math.exp(-charged / cells.most) / math.expm1(-charged / cells.most) ** 2 / cells.most**2
    return abs(np.var(noise) / wanted - 1) < 5.5 * math.sqrt(5 / (n_runs * exact.size))


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_as_wide_as_the_charge_says_and_10_percent_less_is_found(kind, request, monkeypatch):
    seed_coins(monkeypatch)
    model, X, y = request.getfixturevalue(kind)
    cells = counted(model, X[:300], y[:300], compare=model)
    assert is_calibrated(cells, 0.5, 0.5)
    assert not is_calibrated(cells, 0.5 / 0.9, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_figures_without_noise_lie_in_their_bands(kind, request, undigested):
    # 95 in 100 if noise were normal; noise that is near Laplace's lies within 1.96 deviations at least 93 times in 100.
    model, X, y = request.getfixturevalue(kind)
    cells, inside, n_runs = counted(model, X, y, compare=model), {}, 300
    exact = _evaluation(cells, released(cells, math.inf), None)
    for _ in range(n_runs):
        found = _evaluation(cells, released(cells, 0.5), None)
        for name, score, truth in every_score(found, exact):
            if not math.isnan(truth.value):
                inside.setdefault(name, []).append(abs(score.value - truth.value) <= score.margin + 1e-9)
    assert len(inside) >= 9
    for name, hits in inside.items():
        assert len(hits) == n_runs, name
        assert sum(hits) >= at_least(n_runs, 0.93), name


def every_score(found, exact):
    """The scores of two evaluations side by side: of all rows, of the larger subgroups, and of the comparison."""
    yield from ((score.name, score, truth) for score, truth in zip(found.scores, exact.scores, strict=True))
    for one, other in zip(found.details["groups"]["rows"][:2], exact.details["groups"]["rows"][:2], strict=True):
        yield f"first of {one['group']}", one["scores"][0], other["scores"][0]
    scores = zip(found.details["comparison"]["scores"], exact.details["comparison"]["scores"], strict=True)
    yield from ((f"compared: {score.name}", score, truth) for score, truth in scores)


@pytest.mark.slow
def test_bands_of_a_doubtful_divisor_are_wide_enough(undigested):
    """Where the rows are barely more than their noise: 60 rows at epsilon 0.5 in some 26 counts."""
    model, X, y = two(n_rows=60, epsilon=50.0)
    cells, inside = counted(model, X, y, by=None), []
    (exact, *_) = _evaluation(cells, released(cells, math.inf), None).scores
    for _ in range(600):
        (score, *_) = _evaluation(cells, released(cells, 0.5), None).scores
        if not math.isnan(score.value):
            inside.append(abs(score.value - exact.value) <= score.margin)
    assert 100 < len(inside) < 600
    assert sum(inside) >= at_least(len(inside), 0.93)


@pytest.mark.slow
def test_figures_of_other_rows_lie_within_what_is_said_of_them(undigested):
    # Rows of one kind, 600 at a time: the figure on all of them lies within ``sampling`` 95 times in 100, if roughly.
    model, X, y = two(n_rows=60_000)
    whole, inside = named(evaluate_public(model, X, y).scores), {}
    for start in range(0, 60_000, 300):
        part = slice(start, start + 300)
        for score in evaluate_public(model, X[part], y[part]).scores:
            if not math.isnan(score.sampling):
                inside.setdefault(score.name, []).append(abs(score.value - whole[score.name].value) <= score.sampling)
    assert {"accuracy", "area under the curve", "Brier score", "recall of 'b'"} <= inside.keys()
    for name, hits in inside.items():
        assert sum(hits) >= at_least(200, 0.93), name


def test_the_margin_of_a_small_budget_is_ten_times_as_wide_and_none_is_refused(classifier):
    model, X, y = classifier
    wide, narrow = (evaluate_privately(model, X, y, epsilon).scores[0].margin for epsilon in (0.05, 0.5))
    assert 8 < wide / narrow < 12
    for epsilon in (0, -1, math.nan):
        with pytest.raises(ParameterError):
            evaluate_privately(model, X, y, epsilon)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_rows_has_scores_or_none_but_no_error(kind, request):
    model, X, y = request.getfixturevalue(kind)
    assert evaluate_public(model, X[:0], y[:0], by="z").scores == ()
    content = evaluate_privately(model, X[:0], y[:0], 1.0, by="z", compare=model).to_dict()
    assert content["epsilon"] == 1.0
    assert content["scores"]
    assert [row["enough"] for row in content["groups"]["rows"]] == [False] * 4


def test_many_classes_have_hits_and_misses_and_no_matrix():
    labels = [f"label {place}" for place in range(13)]
    X = pd.DataFrame({"x": np.full(60, 0.5), "z": ["u"] * 60})
    model = DPForestClassifier(Schema(FEATURES, Classes(labels)), epsilon=20).fit(X, labels[:1] * 60)
    found = evaluate_privately(model, X, labels[:2] * 30, math.inf)
    assert "confusion" not in found.details
    assert named(found.scores)["accuracy"].value == 0.5
    assert named(found.scores)["recall of 'label 0'"].value == 1
    assert len(found.scores) == 14


def test_labels_that_are_drawn_are_counted_as_labels():
    model, X, y = two(recipe="bojarski-2015", n_rows=500)
    drawn = evaluate_privately(model, X, y, math.inf)
    assert "roc" in drawn.details
    object.__setattr__(model.forest_, "draws", True)
    drawn = evaluate_privately(model, X, y, math.inf)
    assert "roc" not in drawn.details
    kept = pd.notna(y)
    accuracy = metrics.accuracy_score(y[kept].astype(str), model.predict(X[kept]))
    assert named(drawn.scores)["accuracy"].value == pytest.approx(accuracy)
    with pytest.raises(ParameterError, match="A threshold is for two classes"):
        evaluate_privately(model, X, y, 1.0, threshold=0.3)


@pytest.mark.parametrize("n_rows", [0, 1])
def test_what_is_said_of_names_does_not_depend_on_whether_there_are_rows(n_rows):
    model = DPForestClassifier(Schema({"x": Numeric(0, 1)}, Classes([0, 1])), epsilon=20).fit(np.eye(1), [1])
    with pytest.warns(UserWarning, match="fitted without feature names") as said:
        evaluate_privately(model, pd.DataFrame({"x": [0.5] * n_rows}), [1] * n_rows, epsilon=1.0)
    assert len(said) == 1
    named = DPForestClassifier(model.schema, epsilon=20).fit(pd.DataFrame({"x": [0.5]}), [1])
    with pytest.raises(ValueError, match="z"):
        evaluate_privately(named, pd.DataFrame({"z": [0.5] * n_rows}), [1] * n_rows, epsilon=1.0)


# --- persons ---------------------------------------------------------------------------------------------------------

# At most k rows of each are scored, drawn over all parts, with noise for so many.


class Given:
    """Coins that were given beforehand, as many as are asked for; keeps what each of them is below."""

    def __init__(self, drawn=()):
        self.drawn, self.limits = list(drawn), []

    def run(self, _kernel, n_items, limits, values):
        self.limits = limits.tolist()
        values[...] = self.drawn or [0] * n_items


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_every_set_of_rows_of_a_person_is_as_likely_whatever_part_they_come_in(kind, most, request):
    """By all outcomes of the coins; rows without an id, and those whose target is missing, take no place."""
    model, X, y = request.getfixturevalue(kind)
    known = np.flatnonzero(pd.notna(y))[:8]
    X, y = X.iloc[known].reset_index(drop=True), y[known]
    y[1] = None if kind == "classifier" else math.nan
    ids, cells = ["p", "p", "q", None, "p", "q", "p", "r"], Cells.of(model, "z", None, 0.5)
    parts = [(X[part], y[part], np.array(ids, dtype=object)[part]) for part in (slice(0, 3), slice(3, 5), slice(5, 8))]
    own = [opened(cells.count([(X[row : row + 1], y[row : row + 1], None)])) for row in range(8)]
    coins = Given()
    cells.count(parts, People(most, coins))
    outcomes = [*itertools.product(*map(range, coins.limits))]
    found = Counter(opened(cells.count(parts, People(most, Given(drawn)))).tobytes() for drawn in outcomes)
    sets = itertools.product(*(itertools.combinations(rows, min(most, len(rows))) for rows in ([0, 4, 6], [2, 5], [7])))
    wanted = Counter(sum(own[row] for row in sum(chosen, ())).tobytes() for chosen in sets)
    laws = [{key: Fraction(n, law.total()) for key, n in law.items()} for law in (found, wanted)]
    assert laws[0] == laws[1]


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("kind", ["classifier", "classifier_of_two", "regressor"])
def test_a_person_with_many_equal_rows_loses_the_stated_epsilon_and_nearly_all_of_it(kind, most, request, monkeypatch):
    """So noise for 0.9 of the rows would be too little, and rows that are drawn part by part, or not at all, too many."""
    model, X, y = request.getfixturevalue(kind)
    seen = []

    class Watching(Gate):
        def _add_noise(self, values, spread):
            seen.append((values, Fraction(spread.numerator, spread.denominator)))
            return values

    monkeypatch.setattr(scoring, "Gate", Watching)
    y = np.where(pd.notna(y), y, y[2])
    more, labels = pd.concat([X[:20], X[20:21].loc[[20] * 7]]), np.append(y[:20], [y[20]] * 7)
    ids = [*range(20), *[99] * 7]
    tables = [(more[:n], labels[:n], ids[:n]) for n in (20, 27)]
    found = [evaluate_privately(model, X, y, 1.2, groups=who, max_rows_per_person=most) for X, y, who in tables]
    (before, rate), (after, _) = seen
    loss = int(np.abs(after - before).sum()) * rate
    assert Fraction(12, 10) * 999 / 1000 < loss <= Fraction(12, 10)
    assert {(each.epsilon, each.unit, each.rows, each.ledger.rows) for each in found} == {(1.2, "person", most, most)}


def test_ids_and_rows_of_a_person_are_given_together_and_checked(classifier):
    model, X, y = classifier
    dates = pd.Series(pd.Timestamp(0)).repeat(3000)
    for error, asked, words in (
        (ParameterError, {"groups": [0] * 3000}, "set max_rows_per_person"),
        (ParameterError, {"max_rows_per_person": 2}, "protects persons, so groups is needed"),
        (ParameterError, {"groups": [0] * 3000, "max_rows_per_person": 0}, "whole number"),
        (TableError, {"groups": [0] * 2999, "max_rows_per_person": 2}, "X and groups differ in length"),
        (TableError, {"groups": dates, "max_rows_per_person": 2}, "numbers or text"),
    ):
        with pytest.raises(error, match=words):
            evaluate_privately(model, X, y, 1.0, **asked)
    with pytest.raises(TableError, match="X and y differ in length"):
        evaluate_privately(model, X, y[:-1], 1.0)


def test_scores_of_persons_are_charged_to_budgets_of_persons_and_others_name_what_there_is(classifier, tmp_path):
    model, X, y = classifier
    persons = Budget.open(tmp_path / "b.db", dataset="persons", epsilon=1.0, unit="person")
    records = Budget.open(tmp_path / "b.db", dataset="records", epsilon=1.0)
    people = {"groups": np.arange(3000) // 3, "max_rows_per_person": 2}
    evaluate_privately(model, X, y, 0.3, budget=persons, **people)
    assert persons.spent == 0.3
    with pytest.raises(ParameterError, match="To protect persons, set groups and max_rows_per_person, or charge it to a"):
        evaluate_privately(model, X, y, 0.3, budget=persons)
    with pytest.raises(ParameterError, match="Leave out groups and max_rows_per_person, or charge it to a"):
        evaluate_privately(model, X, y, 0.3, budget=records, **people)
    assert (persons.spent, records.spent) == (0.3, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier_of_two", "regressor"])
def test_bands_of_other_rows_hold_also_if_all_rows_of_a_person_are_alike(kind, request, monkeypatch):
    """100 persons with five equal rows each, of a table of many: bands that took rows as independent had far too few."""
    seed_coins(monkeypatch)
    monkeypatch.setattr(scoring, "model_digest", lambda model: None)
    model, X, y = two(n_rows=20_000) if kind == "classifier_of_two" else request.getfixturevalue(kind)
    X, y = X[pd.notna(y)], y[pd.notna(y)]
    whole = {score.name: score.value for score in evaluate_privately(model, X, y, math.inf).scores}
    rng, n_runs, inside, before = np.random.default_rng(0), 200, Counter(), Counter()
    for _ in range(n_runs):
        rows = np.repeat(rng.integers(0, len(y), 100), 5)
        table = X.iloc[rows], y[rows]
        people = {"groups": np.repeat(np.arange(100), 5), "max_rows_per_person": 5}
        for counts, asked in ((inside, people), (before, {})):
            for score in evaluate_privately(model, *table, math.inf, **asked).scores:
                counts[score.name] += abs(score.value - whole[score.name]) <= score.sampling
    names = {name for name in inside if inside[name]}
    assert names >= ({"mean absolute error"} if kind == "regressor" else {"accuracy", "area under the curve"})
    for name in names:
        assert inside[name] >= at_least(n_runs, 0.93), name
        assert before[name] <= at_most(n_runs, 0.7), name  # 62 in 100 is what 1.96 / sqrt(5) deviations hold


def test_decimals_of_a_database_are_one_id_if_they_are_one_number():
    ids = pa.array(["1.0", "1.00", "NaN", None, "9" * 5000])
    for engine, kind in (("postgres", "numeric"), ("duckdb", "HUGEINT")):
        columns = pa.Table.from_arrays([ids], schema=pa.schema([pa.field("who", ids.type, metadata={engine: kind})]))
        first, second, *_ = read = ids_beside(columns, "who")
        assert first == second == Decimal(1)
        assert len(read) == 5
    dates = pa.schema([pa.field("who", ids.type, metadata={"postgres": "timestamp with time zone"})])
    with pytest.raises(TableError, match="numbers or text"):
        ids_beside(pa.Table.from_arrays([ids], schema=dates), "who")
