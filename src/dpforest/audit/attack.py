"""Membership attack: can someone who sees the model tell whether one record was in the table?

The likelihood-ratio attack with shadow forests [carlini2022], by the strongest attacker that the promise speaks of: one who
knows the recipe, every other record and the one in question. Sees rows, as that attacker does; for audits only.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from joblib import Parallel, delayed
from scipy.special import softmax
from scipy.stats import binomtest
from sklearn.metrics import roc_curve

from dpforest.audit.fits import FITS
from dpforest.audit.subject import Subject
from dpforest.common.text import jsonable
from dpforest.common.work import Step
from dpforest.datasets import load_dataset, load_survey
from dpforest.errors import ParameterError, shown
from dpforest.forest.tree import Forest
from dpforest.parts.sampling import Disjoint
from dpforest.records.base import MOST_WEIGHT
from dpforest.records.categories import category_codes
from dpforest.records.columns import read_columns, read_target, read_values, to_numbers
from dpforest.records.dates import NO_DATE, derived_columns, to_seconds
from dpforest.records.encoding import encode
from dpforest.records.given import to_objects
from dpforest.schema import FINE_STEPS, Categorical, Classes, Date, Feature, Schema
from dpforest.schema.domain import Derived
from dpforest.schema.grid import date_words

FALSE_POSITIVES = 0.01  # the rate at which an attack is judged
CONFIDENCE = 0.999  # of the limits of a measured rate
LEAST_FITS = 80
FITS_AT_ONCE = 20  # that a worker is handed
# Shares of the canary's label closer to 0 or 1 than this look alike: a logarithm would make too much of them.
LEAST_SHARE = 1e-3
# Variance that every statistic has at least, as a share of its own: without noise some have none.
LEAST_VARIANCE = 1e-6
# Records around the canary that say which label is rare there.
N_NEAR = 50


@dataclass(frozen=True)
class Attack:
    """The result of a membership attack: how well it tells fits with one planted record, the canary, from fits without it.

    The fits are fresh and independent. On a first quarter of them the attack is tuned, on a second one the threshold of its
    score is set so that at most 1 % of the fits without the canary pass it, and on the other half it is tested. Given attack
    and threshold, true and false positives of the tested fits are binomial; their rates come with two-sided
    Clopper-Pearson limits of 99.9 %. So a claim that is kept is found exceeded with a probability of at most 0.1 %, however
    the attack was tuned.
    """

    table: str
    n_rows: int  # without the canary
    recipe: str
    variant: str
    epsilon: float
    delta: float
    canary: dict[str, Any]
    fpr: np.ndarray  # the trade-off curve of the tested fits, over all thresholds
    tpr: np.ndarray
    tpr_at_1_percent: float
    tpr_low: float
    tpr_high: float
    fpr_tested: float  # what the threshold for 1 % gave on the tested fits
    fpr_high: float
    allowed: float  # the most that the claim allows at 1 %
    n_fits: int
    seconds: float
    own: bool = False  # see ``Audit``
    fingerprint: str = ""

    @property
    def exceeds(self) -> bool:
        """Whether the rate of true positives is above what the claim allows, at the largest plausible rate of false ones."""
        return bool(self.tpr_low > most_allowed(self.fpr_high, self.epsilon, self.delta))

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, ready for JSON (an infinite epsilon is the text "inf")."""
        return jsonable(asdict(self) | {"exceeds": self.exceeds})


def most_allowed(fpr: Any, epsilon: float, delta: float) -> Any:
    """The largest true-positive rate of any attack with that false-positive rate on an (epsilon, delta)-DP release.

    The promise limits how often "was in the table" may be said, and how often "was not": both limits count.

    Example
    -------
    >>> float(round(most_allowed(0.01, 1.0, 0.0), 4))
    0.0272
    """
    if math.isinf(epsilon):
        return np.ones_like(fpr, dtype=float)[()]
    growth = math.exp(min(epsilon, 700.0))  # beyond it a float has no room, and the limit is 1 at all but tiny rates
    limit = np.minimum(growth * np.asarray(fpr) + delta, 1 - (1 - delta - np.asarray(fpr)) / growth)
    return np.clip(limit, 0.0, 1.0)[()]


def attack(
    subject: Subject,
    X: Any,
    y: Any,
    schema: Schema,
    table: str,
    n_fits: int = 2000,
    n_jobs: int = -1,
    progress: Callable[[str], None] = lambda step: None,
) -> Attack:
    """The result of an attack on fits of which half hold the canary, the ``exposed_record`` of the table.

    Fits take their coins from the operating system and run in ``n_jobs`` processes.
    """
    if n_fits < LEAST_FITS:
        raise ParameterError(f"An attack needs at least {LEAST_FITS} fits, not {shown(n_fits)}.")
    start, claim, canary = time.perf_counter(), subject.claim(), exposed_record(X, y, schema)
    world = World.plant(subject, X, y, schema, canary)
    fits = _collect(world, n_fits // 2, n_jobs, progress)
    tuned, held = len(fits) // 4, len(fits) // 2
    # Term by term: a product of matrices may round the same statistics differently, and ties would break.
    without, planted = (fits * _tune(fits[:tuned])).sum(axis=2).T
    # A new fit without the canary passes it with a probability of about 1 %.
    threshold = np.sort(without[tuned:held])[-max(1, math.floor(FALSE_POSITIVES * (held - tuned + 1)))]
    without, planted = without[held:], planted[held:]
    fpr, tpr, _ = roc_curve(np.repeat([0, 1], len(without)), np.concatenate([without, planted]))
    fpr_tested, _, fpr_high = _rate(without > threshold)
    tpr_tested, tpr_low, tpr_high = _rate(planted > threshold)
    return Attack(
        table=table,
        n_rows=len(world.added) - 1,
        **claim,
        canary=canary,
        fpr=fpr,
        tpr=tpr,
        tpr_at_1_percent=tpr_tested,
        tpr_low=tpr_low,
        tpr_high=tpr_high,
        fpr_tested=fpr_tested,
        fpr_high=fpr_high,
        allowed=float(most_allowed(FALSE_POSITIVES, subject.epsilon, subject.delta)),
        n_fits=fits.shape[0] * fits.shape[1],
        seconds=time.perf_counter() - start,
    )


def realistic_table(name: str) -> tuple[Any, Any, Schema]:
    """Features, target and schema of "survey", or of a table that ``load_dataset`` knows."""
    return load_survey() if name == "survey" else load_dataset(name)


def exposed_record(X: Any, y: Any, schema: Schema) -> dict[str, Any]:
    """The record that a forest on this table should find hardest to hide; the same each time.

    Each number is at the public bound on the emptier half of its range, each category is the rarest, and the label is the
    rarest among the nearest records (for a bounded target, the bound farther from their mean). Such a record ends in leaves
    that hold few others, and says what they do not. It is chosen by the table alone, never by how an attack went.
    """
    canary: dict[str, Any] = {}
    far = np.zeros(len(np.asarray(y)))
    for (name, feature), column in zip(schema.features.items(), read_columns(X, schema), strict=True):
        if not isinstance(feature, Categorical):
            lower, upper = feature.range
            (numbers,) = derived_columns([column], [Derived(name, 0, feature)])
            values = (to_numbers(numbers) - lower) / (upper - lower)
            end = float((values < 0.5).sum() >= (values >= 0.5).sum())
            bounds = date_words(feature, feature.range) if isinstance(feature, Date) else feature.range
            canary[name] = bounds[int(end)]
            far += np.nan_to_num(np.abs(values - end), nan=1.0).clip(0, 1)
        else:
            codes, listed = category_codes(column, feature), feature.categories or _like(column)
            own = category_codes(to_objects(listed), feature)
            rarest = int(np.bincount(codes, minlength=feature.n_values + 2)[own].argmin())
            canary[name] = listed[rarest]
            far += codes != own[rarest]
    target, codes = schema.target, read_target(y, schema.target)
    valid = np.flatnonzero(codes >= 0)
    near = codes[valid[np.argsort(far[valid], kind="stable")[:N_NEAR]]]
    if isinstance(target, Classes):
        canary[target.name] = target.labels[int(np.bincount(near, minlength=target.n_values).argmin())]
    else:
        canary[target.name] = target.range[int(near.mean() < FINE_STEPS / 2)]
    return canary


def _like(column: Any) -> list[Any]:
    """Values of the type of a column, enough for some of them to fall into each bucket: numbers, their texts, or truths."""
    kinds = {type(value) for value in read_values(column)}
    if bool in kinds:
        return [False, True]
    return [str(number) if str in kinds else number for number in range(1000)]


@dataclass(frozen=True)
class World:
    """What the attacker knows: the subject and the table, with the canary as its last record.

    ``added`` ``(n_records, n_values)`` is what each record adds to the counts of its node.
    """

    subject: Subject
    schema: Schema
    features: pa.Table
    target: pa.ChunkedArray
    added: np.ndarray

    @classmethod
    def plant(cls, subject: Subject, X: Any, y: Any, schema: Schema, canary: Mapping[str, Any]) -> "World":
        named = zip(schema.features.items(), read_columns(X, schema), strict=True)
        features = pa.table({name: _planted(part, column, canary[name]) for (name, part), column in named})
        target = _column([*np.asarray(y), canary[schema.target.name]])
        codes = read_target(target, schema.target)
        if isinstance(schema.target, Classes):
            added = np.eye(schema.target.n_values)[codes]
        else:
            added = np.stack([FINE_STEPS - codes, codes], axis=1) / FINE_STEPS
        added[codes < 0] = 0
        return cls(subject, schema, features, target, added)

    @property
    def own(self) -> int:
        """The index of the canary's class; for a bounded target 0 if the lower bound is nearer, else 1."""
        return int(self.added[-1].argmax())

    def look(self, planted: bool) -> np.ndarray:
        """The statistics of one new fit, with or without the canary."""
        n_rows = len(self.added) - (not planted)
        model = self.subject.fitted(self.schema, self.features[:n_rows], self.target[:n_rows])
        return self._statistics(model.forest_)

    def _statistics(self, forest: Forest) -> np.ndarray:
        """The numbers of a released forest by which the attacker decides whether the canary was in the table.

        To someone who asks for a prediction: the log-odds of its label. To someone who reads counts: the evidence in
        those of its class, and in the lead of its class over the others; and the records of its class in all.
        """
        codes = encode(read_columns(self.features, self.schema), forest.domain)
        share = np.clip(forest.predict(codes[:, -1:])[0, self.own], LEAST_SHARE, 1 - LEAST_SHARE)
        excess, weights, spreads = self._excess(forest, codes)
        own = excess[:, self.own]
        lead = 2 * own - excess.sum(axis=1)
        of_own, of_lead = (_evidence(values, weights, spreads) for values in (own, lead))
        in_all = forest.counts[forest.parents < 0, self.own].sum()
        return np.array([math.log(share / (1 - share)), *of_own, *of_lead, in_all])

    def _excess(self, forest: Forest, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Released counts of nodes that the canary passes, minus what other records explain, ``(n_nodes, n_values)``.

        The splits that a forest happens to choose move counts far more than one record does; whoever knows the other
        records can count them in the released nodes and is left with noise and canary. With it come the weight that the
        canary has at each node, and the spread of the noise.
        """
        seen = 1 / forest.n_trees if isinstance(self.subject.parts.sample, Disjoint) else 1.0
        scores, found = np.zeros(self.added.shape), []
        for number in range(forest.n_trees):
            tree = forest.only(np.arange(forest.n_trees) == number)
            leaves = tree.leaves(codes)[0]
            path = _released_path(tree, leaves[-1])
            n_shared = _n_shared(tree, path)[leaves]
            near = np.flatnonzero(n_shared)  # the canary is the last of them
            added = self.added[near]
            if forest.link == "softmax":
                added = _missed(scores[near], added)
                scores += tree.votes[leaves]
            explained = np.zeros((len(path), added.shape[1]))
            np.add.at(explained, n_shared[near[:-1]] - 1, seen * added[:-1])
            # Who passes a node has passed those above.
            excess = tree.counts[path] - explained[::-1].cumsum(axis=0)[::-1]
            # A label is released as one record without noise, so one record is the least spread.
            spreads = np.sqrt(1 + tree.variances[path])
            found.append((excess, np.full(len(path), added[-1, self.own]), spreads))
        excess, weights, spreads = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return excess, weights, spreads


def _evidence(excess: np.ndarray, weights: np.ndarray, spreads: np.ndarray) -> tuple[float, float]:
    """The log-likelihood ratio of "planted" against "not", for these weights, if noise is Gaussian and if it is Laplace."""
    gaussian = weights * (excess - weights / 2) / spreads**2
    laplace = np.clip(2 * excess - weights, -weights, weights) / spreads
    return float(gaussian.sum()), float(laplace.sum())


def _planted(part: Feature, column: Any, value: Any) -> pa.ChunkedArray:
    """A column with the value of the canary at its end."""
    if not isinstance(part, Date):
        return _column([*column, value])
    seconds = np.concatenate([to_seconds(column), to_seconds(to_objects([value]))])
    return pa.chunked_array([pa.array(seconds, pa.int64(), mask=seconds == NO_DATE).cast(pa.timestamp("s"))])


def _column(values: list[Any]) -> pa.ChunkedArray:
    column = pa.array(values, from_pandas=True)
    # Text is looked up once here and not again in every fit.
    return pa.chunked_array([column.dictionary_encode() if pa.types.is_string(column.type) else column])


def _released_path(tree: Forest, leaf: int) -> np.ndarray:
    """The nodes from the root to a leaf whose counts were released."""
    path = [leaf]
    while tree.parents[path[-1]] >= 0:
        path.append(tree.parents[path[-1]])
    nodes = np.array(path[::-1])
    return nodes[tree.is_leaf[nodes] | tree.released[nodes]] if len(tree.released) else nodes[-1:]


def _n_shared(tree: Forest, path: np.ndarray) -> np.ndarray:
    """For each node of a tree, how many nodes of a path lie on the way from the root to it."""
    n_shared = np.bincount(path, minlength=tree.n_nodes)
    for level in tree.level_slices()[1:]:
        n_shared[level] += n_shared[tree.parents[level]]
    return n_shared


def _missed(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What each record adds to the counts of a tree in sequence: how far the trees before miss it (``residual_sums``)."""
    n_classes = labels.shape[1]
    shares = softmax(scores, axis=1)
    wrong = np.maximum(1 - (shares * labels).sum(axis=1, keepdims=True), 1e-12)
    scale = np.minimum(n_classes / (n_classes - 1), 1 / wrong)
    # Rounded down as the forest does it, but not where floats miss a whole number by a hair.
    weight = np.floor(MOST_WEIGHT * wrong * scale + 1e-6)
    others = np.floor(MOST_WEIGHT * shares * scale + 1e-6) * (1 - labels)
    residuals = np.where(labels > 0, others.sum(axis=1, keepdims=True), -others)
    return (weight + (n_classes - 1) * residuals) / (n_classes * MOST_WEIGHT)


def _collect(world: World, n_pairs: int, n_jobs: int, progress: Callable[[str], None]) -> np.ndarray:
    """Statistics of fresh fits, ``(n_pairs, 2, n_statistics)``: without and with the canary."""
    looks = [delayed(world.look)(planted) for planted in (False, True)] * n_pairs
    fits: list[np.ndarray] = []
    # In the order of the jobs: which half a fit is in must not depend on how long it took.
    for statistics in Parallel(n_jobs, batch_size=FITS_AT_ONCE, return_as="generator")(looks):
        fits.append(statistics)
        if len(fits) % FITS_AT_ONCE == 0 or len(fits) == len(looks):
            progress(Step(f"{len(fits)} of {len(looks)} fits", len(fits), len(looks), FITS))
    return np.array(fits).reshape(n_pairs, 2, -1)


def _tune(fits: np.ndarray) -> np.ndarray:
    """Weights of the statistics whose sum is the log-likelihood ratio, up to a constant.

    Normal densities with a mean for fits with and without the canary, and one covariance for both: one record moves
    means, and hardly spreads, which would have to be estimated from half of the fits each.
    """
    spread = fits.std(axis=(0, 1))
    spread[spread == 0] = 1
    without, planted = (fits / spread).swapaxes(0, 1)
    covariance = (np.cov(without.T) + np.cov(planted.T)) / 2 + LEAST_VARIANCE * np.eye(len(spread))
    return np.linalg.solve(covariance, (planted - without).mean(axis=0)) / spread


def _rate(positives: np.ndarray) -> tuple[float, float, float]:
    """The share of positives, with its lower and upper confidence limit."""
    limits = binomtest(int(positives.sum()), len(positives)).proportion_ci(CONFIDENCE, "exact")
    return float(positives.mean()), float(limits.low), float(limits.high)
