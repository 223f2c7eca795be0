"""What a fit would do with its budget, and why, before any data are touched. Public values only."""

import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dpforest.common.text import NOTHING, counted, decimals, listed_names, roughly
from dpforest.errors import ParameterError, SchemaError
from dpforest.forest.bands import NORMAL_95
from dpforest.forest.tree import Forest
from dpforest.growing.learnt import check_delta
from dpforest.growing.linear import LinearScore, Order
from dpforest.growing.sequential import Phase, SequenceStep, Sequential
from dpforest.mechanisms import Entropy
from dpforest.model.signal import Signal
from dpforest.parts.criteria import GiniCount, MaxOperator, Mixture, ResidualGain, SoftAgreement, SquaredError
from dpforest.parts.leaves import NoisyCounts, ResidualSums, Rotated, TwoBinMean
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import ALL_ROWS
from dpforest.parts.shape import Facts
from dpforest.pipeline import fit_forest, public_facts, sampled_facts
from dpforest.privacy.accountants import check_whole, make_accountant
from dpforest.privacy.amounts import exact
from dpforest.privacy.composition import entries
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.recipes import get_recipe, is_listed
from dpforest.records.vault import Vault
from dpforest.schema import Schema
from dpforest.schema.patterns import expanded, patterns_of
from dpforest.show.charges import gaps, shares_by_kind

WORDS: dict[type, str] = {
    MaxOperator: "how many records are of the most common class of their child",
    Mixture: "how many records are of the most common class of their child, and the Gini index",
    GiniCount: "the Gini index of the children",
    ResidualGain: "how far the children lean to some classes and from others, by what the trees before got wrong",
    SquaredError: "the squared error of the children",
    SoftAgreement: "how far the records of the two children lie on opposite sides of the node's centre",
    NoisyCounts: "a count for each class",
    Rotated: "by how much one class leads, precisely, and its size, roughly",
    ResidualSums: "the sum of the residuals of each class, precisely, and its size, roughly",
    TwoBinMean: "the sum of its values, as distances from both bounds",
}
WHY_BEFORE = {
    "deep tree": "grown first: it shows how features act together",
    "marginal trees": "grown first: each splits on one feature only, so that every feature is used",
    "tree without splits": "one leaf with all records: how common the classes are",
    "linear score": "two looks at all numbers together; if the first stands out of its noise, the second is at the same "
    "sums, else at how far numbers are from their middle; then it is chosen how much the score counts",
}
# The fields of any recipe but the default one that are shown, and what each is called.
SHOWN = {
    "sample": "records of a tree", "propose": "candidates", "criterion": "a split is chosen by",
    "allocate": "the amount of a tree", "leaf": "a leaf releases", "stop": "stopping", "first_look": "first look",
    "target_range": "range of the target", "stages": "order of trees", "vote": "vote",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One choice of the planner, or one share of the budget, and why."""

    what: str
    value: str
    why: str


@dataclass(frozen=True)
class Explanation:
    """The plan of a fit: its choices, where each share of the budget goes, and how leaves compare with their noise."""

    choices: tuple[Line, ...]
    shares: tuple[Line, ...]
    noise: tuple[Line, ...]
    unknown: tuple[Line, ...]  # what the schema does not know, what is spent on it, and what knowing it would buy

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    schema: Schema,
    n_rows: int | None,
    epsilon: float,
    delta: float = 0.0,
    n_trees: int | None = None,
    max_depth: int | None = None,
    columns: Sequence[str] | None = None,
    recipe: str | Recipe = "auto",
    max_rows_per_person: int | None = None,
) -> Explanation:
    """The plan of a recipe for about ``n_rows`` rows; None takes the number that the schema declares.

    ``columns`` are the names of the table's columns, which a schema with patterns needs. With ``max_rows_per_person``
    epsilon and delta are those of a person, and ``n_rows`` is the number of rows that are used.
    """
    for name, value in (("n_trees", n_trees), ("max_depth", max_depth), ("max_rows_per_person", max_rows_per_person)):
        check_whole(name, value)
    ledger = Ledger(make_accountant(epsilon, delta, max_rows_per_person or 1))
    if columns is not None:
        schema = expanded(schema, lambda: columns)
    elif patterns_of(schema):
        raise SchemaError(
            f"The schema has the pattern {patterns_of(schema)[0]!r}: how many columns it stands for decides the plan. Name "
            "them, by columns=[...] or dpforest plan --table TABLE, which reads no row."
        )
    check_whole("n_rows", n_rows, least=0, most=(1 << 63) - 1)
    guess = schema.n_rows if n_rows is None else n_rows
    if guess is None:
        raise ParameterError(
            "The schema does not declare the number of rows; say how many you expect, roughly, by --rows (in Python n_rows)."
        )
    check_delta(schema, epsilon, delta)
    sketch = get_recipe(recipe) if isinstance(recipe, str) else recipe
    sketch.check(schema)
    of_table = replace(public_facts(schema, sketch, ledger.accountant.record_epsilon, delta), n_rows=float(guess))
    facts = sampled_facts(of_table, sketch.secret_sample.share(of_table), ledger)
    planned = replace(sketch.resolve(facts, n_trees, max_depth), secret_sample=ALL_ROWS)
    is_free = schema.n_rows is not None or not sketch.needs_rows
    choices = [*_rows(schema, of_table, facts, sketch.needs_rows)]
    if max_rows_per_person is not None:
        why = (
            f"drawn by lot; noise is made for all of them at once, so each of them is worth epsilon = {of_table.epsilon:.3g}"
        )
        choices.insert(0, Line("rows of a person", f"at most {ledger.rows}", why))
    forest, ledger = _dry_run(schema, planned, facts, is_free)
    left = 1.0 if is_free or ledger.unit == "rho" else 1 - planned.n_rows_share
    why = "of epsilon; the plan follows from what is measured"
    measured = [] if is_free else [Line("number of rows", f"{planned.n_rows_share:.1%}", why)]
    is_default = is_listed(sketch) and sketch.name == "auto"
    return Explanation(
        (*choices, *(_choices(planned, facts, ledger) if is_default else _parts(planned))),
        (*measured, *_shares(ledger, left, delta)),
        tuple(_noise(forest, ledger, planned, facts)) if is_default else (),
        tuple(_unknown(schema, ledger, left)),
    )


def _dry_run(schema: Schema, recipe: Recipe, facts: Facts, is_public: bool) -> tuple[Forest, Ledger]:
    """The forest and the ledger of a fit of no rows, with the same coins each time: neither depends on any row."""
    epsilon = facts.epsilon if is_public else facts.epsilon * (1 - recipe.n_rows_share)
    gate = Gate(Ledger(make_accountant(epsilon, facts.delta)), Entropy(0))
    empty = Vault.seal([], [], replace(schema, n_rows=round(facts.n_rows)))
    return fit_forest(empty, recipe, gate), gate.ledger


def _rows(schema: Schema, of_table: Facts, facts: Facts, needs_rows: bool) -> Iterator[Line]:
    """Lines on the rows of the table, and on the secret sample of them, if the fit is made from one."""
    measured = "the fit plans with a number that it measures" if needs_rows else "the recipe asks for none"
    why = f"your guess; {measured}" if schema.n_rows is None else "declared public by the schema"
    yield Line("rows", f"{of_table.n_rows:,.0f}", why)
    if facts.n_rows < of_table.n_rows:
        why = (
            f"each record takes part by a secret coin, so that epsilon = {of_table.epsilon:.3g} of the table is "
            f"{facts.epsilon:.3g} of the sample; the coins are part of the guarantee. sample_rows sets another number"
        )
        yield Line("secret sample", f"about {roughly(facts.n_rows)} rows", why)


def _parts(recipe: Recipe) -> Iterator[Line]:
    """For each part of a resolved recipe what it is for, its name, and the first sentence of its documentation."""
    yield Line("trees", str(recipe.n_trees), f"as recipe {recipe.name!r} says, or as asked for")
    yield Line("depth", str(recipe.depth), "levels of splits in each tree, at most")
    for field, what in SHOWN.items():
        if (part := getattr(recipe, field)) is not None:
            summary = inspect.cleandoc(type(part).__doc__ or "").partition("\n\n")[0].replace("`", "")
            yield Line(what, type(part).__name__, " ".join(summary.split()).partition(". ")[0].removesuffix("."))


def _choices(recipe: Recipe, facts: Facts, ledger: Ledger) -> Iterator[Line]:
    """The choices of the planner of the default recipe, which has reasons."""
    why = "says how far records stand out of the noise; the other choices follow from it"
    yield Line("rows x epsilon", f"{facts.n_rows * facts.epsilon:,.0f}", why)
    yield _releases(recipe, facts)
    before, last = _steps(recipe)
    for step, name in before:
        yield Line(name, str(step.n_trees or "a tree for each feature"), WHY_BEFORE[name])
    if isinstance(last, LinearScore):
        why = "a tree with a label at each leaf or, if that gets more records right, a cut of the linear score"
        yield Line("rule", f"{counted(last.rule_depth, 'level')} of splits", why)
        yield _cuts(recipe, ledger)
        return
    why = "one tree gets nearly all of the budget" if last else "one tree gets the whole budget"
    why = "each corrects what the released trees before it get wrong" if recipe.n_trees > 1 else why
    yield Line("trees", str(_own_trees(recipe)), why)
    if (n_batches := _batches(recipe)) > 1:
        why = (
            "trees take turns on them; each record is in one, by a coin of its own, so a tree may spend as many times more "
            "on its batch, and takes less time"
        )
        yield Line("batches", str(n_batches), why)
    why = "levels of splits in each tree; each further level halves the records of a leaf"
    yield Line("depth", str(recipe.depth), why)
    k = recipe.propose.n_features
    why = "few trees need all features; many trees differ more if each node sees only some"
    yield Line("features at a node", "all" if k is None else f"{int(k)} of {facts.n_features}", why)
    yield _cuts(recipe, ledger)
    why = "one private choice for each node, over all its candidates"
    yield Line("a split is chosen by", WORDS[type(recipe.criterion)], why)
    yield Line("a leaf releases", WORDS[type(recipe.leaf)], "with noise, for every leaf, empty or not")
    if last:
        why = (
            "a look at all features together: it orders the records of a leaf by how much they are like the commonest class"
        )
        yield Line("order", "a tree for each feature", why)


def _cuts(recipe: Recipe, ledger: Ledger) -> Line:
    has_search = bool(shares_by_kind(ledger)["grid"])
    if has_search and not (recipe.learned_grid is not None and recipe.learned_grid.far_only):
        return Line("cuts of a number", "through its quarters", "a share of the budget finds where the numbers lie")
    value = "few at each scale" if recipe.grid.sparse else "some at each scale"
    search = "; a share of the budget finds numbers that lie far from zero for their spread" if has_search else ""
    return Line("cuts of a number", value, f"placed by the schema alone{search}")


def _releases(recipe: Recipe, facts: Facts) -> Line:
    value = "pure epsilon"
    if math.isinf(facts.epsilon):
        value, why = "exact", "epsilon is infinite, so no noise is added"
    elif facts.delta == 0:
        why = "delta is 0: splits are chosen by permute-and-flip, counts get geometric noise"
    elif recipe.without_delta:
        why = "rows x epsilon is too small for delta to pay off, or its noise would not fit 64 bits"
    else:
        value = "zCDP"
        why = "delta pays off: splits are chosen by the exponential mechanism, counts get Gaussian noise"
    return Line("releases", value, why)


def _shares(ledger: Ledger, left: float, delta: float) -> Iterator[Line]:
    """For each kind of charge its share of the budget and how it is released; the ledger is about ``left`` of the budget."""
    charges = [entry for book in ledger.books for _, entry in entries(book.root)]
    for kind, share in shares_by_kind(ledger).items():
        own = [entry.mechanism for entry in charges if entry.purpose.kind == kind]
        why = f"of {ledger.unit}; {counted(len(own), 'charge')}, by {', '.join(sorted({each.name for each in own}))}"
        if "threshold" in own[0].parameters:
            least, part = own[0].parameters["threshold"], len(own) * own[0].parameters["delta"] / exact(delta)
            why += f", and {float(part):.0%} of delta: values that some {int(least):,} records or more have are named"
        yield Line(kind, f"{left * share:.1%}", why)


def _unknown(schema: Schema, ledger: Ledger, left: float) -> Iterator[Line]:
    """Lines on what the schema does not know; ``left`` is the share of the budget that the ledger is about."""
    for gap in gaps(schema, ledger):
        what, share = gap.unknown, f"{left * gap.share:.1%}" if gap.share else NOTHING
        why = what.cost if gap.share else what.without
        yield Line(f"{what.lacks}: {listed_names(what.columns)}", share, f"{why}; {what.gain}")


def _noise(forest: Forest, ledger: Ledger, recipe: Recipe, facts: Facts) -> Iterator[Line]:
    """Lines on the size of leaves against their noise, by kind of tree."""
    signal, n_own = Signal.of(forest, ledger), _own_trees(recipe)
    before, _ = _steps(recipe)
    n_score = forest.n_trees - n_own - sum(step.n_trees for step, _ in before)
    kinds = np.repeat([*(name for _, name in before), "trees"], [*(step.n_trees or n_score for step, _ in before), n_own])
    is_lead = signal.release == "lead"
    alike, of_lead = ("equally large and pure", " of its lead") if is_lead else ("equally large", "")
    for name in dict.fromkeys(kinds.tolist()):
        if name == "linear score":  # in whose trees nothing is counted
            continue
        trees = np.flatnonzero(kinds == name)
        leaves = forest.is_leaf & np.isin(forest.trees, trees)
        size = facts.n_rows / min(_batches(recipe), len(trees)) * len(trees) / leaves.sum()
        own = signal.deviations[leaves]
        deviation = float(np.sqrt(np.square(own).mean()))
        band, average = NORMAL_95 * deviation, "" if np.allclose(own, deviation) else " on average"
        value = f"{size:,.0f} records, noise{of_lead} ± {band:,.{decimals(band)}f}{average}"
        why = f"{size / deviation:,.3g} standard deviations of its noise, if leaves are {alike}" if deviation else "no noise"
        yield Line(f"leaf of the {name}", value, why)


def _steps(recipe: Recipe) -> tuple[list[tuple[SequenceStep, str]], SequenceStep | None]:
    """The steps before the recipe's own trees, each with the name of its trees, and a last one of another kind, if any.

    A last ``LinearScore`` step ends in a rule in place of trees, and so comes before none; ``Order`` comes after them.
    """
    steps = recipe.stages.phases if isinstance(recipe.stages, Sequential) else ()
    last = steps[-1] if steps and isinstance(steps[-1], LinearScore | Order) else None
    n_own = 0 if isinstance(last, LinearScore) else 2 if last else 1
    return [(step, _name(step)) for step in steps[: max(len(steps) - n_own, 0)]], last


def _name(step: SequenceStep) -> str:
    if isinstance(step, LinearScore):
        return "linear score"
    assert isinstance(step, Phase)
    if step.one_feature_each:
        return "marginal trees"
    return "tree without splits" if step.parts.get("depth") == 0 else "deep tree"


def _batches(recipe: Recipe) -> int:
    """The number of batches that trees take turns on; 1 if each has all records."""
    return recipe.stages.batches if isinstance(recipe.stages, Sequential) else 1


def _own_trees(recipe: Recipe) -> int:
    """The number of trees that the recipe grows after the steps before them."""
    return recipe.n_trees - sum(step.n_trees for step, _ in _steps(recipe)[0])
