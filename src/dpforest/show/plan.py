"""What a fit would do with its budget, and why, before any data are touched. Public values only."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dpforest.common.text import NOTHING, counted, decimals, listed_names, roughly
from dpforest.errors import ParameterError, SchemaError
from dpforest.forest.bands import NORMAL_95
from dpforest.forest.tree import Forest
from dpforest.growing.learnt_lists import PURPOSE, SHARES, check_delta
from dpforest.growing.linear import Linear
from dpforest.growing.order import Order
from dpforest.growing.sequential import Phase, Sequential, Step, rounds
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
from dpforest.privacy.events import Mechanism
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.recipes import get_recipe, is_listed
from dpforest.records.vault import Vault
from dpforest.schema import Schema
from dpforest.schema.patterns import expanded, patterns_of
from dpforest.show.gaps import gaps, shares_by_kind
from dpforest.show.recipe_plan import charge_lines, part_lines

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


@dataclass(frozen=True)
class Line:
    """One choice of the planner, or one share of the budget, and why."""

    what: str
    value: str
    why: str

    @classmethod
    def of(cls, cells: tuple[str, str, str]) -> "Line":
        return cls(*cells)


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
    person = [] if max_rows_per_person is None else [_of_person(ledger, of_table.epsilon)]
    facts = sampled_facts(of_table, sketch.secret_sample.share(of_table), ledger)
    planned = replace(sketch.resolve(facts, n_trees, max_depth), secret_sample=ALL_ROWS)
    is_public, is_free = schema.n_rows is not None, schema.n_rows is not None or not sketch.needs_rows
    forest, ledger = _dry_run(schema, planned, facts, is_free)
    left = 1.0 if is_free or ledger.unit == "rho" else 1 - planned.n_rows_share
    rows, unknown = person + _rows(of_table, facts, is_public, sketch.needs_rows), tuple(_unknown(schema, ledger, left))
    if not (is_listed(sketch) and sketch.name == "auto"):
        choices, shares = map(Line.of, part_lines(planned)), map(Line.of, charge_lines(ledger, left))
        measured = [] if is_free else [_number_of_rows(planned)]
        return Explanation((*rows[:-1], *choices), (*measured, *shares), (), unknown)
    return Explanation(
        (*rows, *_choices(planned, facts, ledger)),
        tuple(_shares(planned, facts, ledger, is_public)),
        tuple(_noise(forest, ledger, planned, facts)),
        unknown,
    )


def _dry_run(schema: Schema, recipe: Recipe, facts: Facts, is_public: bool) -> tuple[Forest, Ledger]:
    """The forest and the ledger of a fit of no rows: neither noise nor charges depend on any."""
    epsilon = facts.epsilon if is_public else facts.epsilon * (1 - recipe.n_rows_share)
    gate = Gate(Ledger(make_accountant(epsilon, facts.delta)), Entropy(None))
    empty = Vault.seal([], [], replace(schema, n_rows=round(facts.n_rows)))
    return fit_forest(empty, recipe, gate), gate.ledger


def _of_person(ledger: Ledger, of_record: float) -> Line:
    why = f"drawn by lot; noise is made for all of them at once, so each of them is worth epsilon = {of_record:.3g}"
    return Line("rows of a person", f"at most {ledger.rows}", why)


def _rows(of_table: Facts, facts: Facts, is_public: bool, needs_rows: bool) -> list[Line]:
    """Lines on the rows of the table, on the secret sample of them, if the fit is made from one, and on what they weigh."""
    measured = "the fit plans with a number that it measures" if needs_rows else "the recipe asks for none"
    why_rows = "declared public by the schema" if is_public else f"your guess; {measured}"
    lines = [Line("rows", f"{of_table.n_rows:,.0f}", why_rows)]
    if facts.n_rows < of_table.n_rows:
        why = (
            f"each record takes part by a secret coin, so that epsilon = {of_table.epsilon:.3g} of the table is "
            f"{facts.epsilon:.3g} of the sample; the coins are part of the guarantee. sample_rows sets another number"
        )
        lines.append(Line("secret sample", f"about {roughly(facts.n_rows)} rows", why))
    why = "says how far records stand out of the noise; the other choices follow from it"
    return [*lines, Line("rows x epsilon", f"{facts.n_rows * facts.epsilon:,.0f}", why)]


def _choices(recipe: Recipe, facts: Facts, ledger: Ledger) -> list[Line]:
    lines = [_releases(recipe, facts)]
    for phase, name in _before(recipe):
        lines.append(Line(name, str(phase.n_trees or "a tree for each feature"), WHY_BEFORE[name]))
    if rule := _rule(recipe):
        depth = counted(rule.rule_depth, "level")
        why = "a tree with a label at each leaf or, if that gets more records right, a cut of the linear score"
        return [*lines, Line("rule", f"{depth} of splits", why), _cuts(recipe, bool(shares_by_kind(ledger)["grid"]))]
    why_trees = (
        "each corrects what the released trees before it get wrong"
        if recipe.n_trees > 1
        else "one tree gets nearly all of the budget"
        if _order(recipe)
        else "one tree gets the whole budget"
    )
    lines.append(Line("trees", str(_own_trees(recipe)), why_trees))
    if (n_batches := _batches(recipe)) > 1:
        why = (
            "trees take turns on them; each record is in one, by a coin of its own, so a tree may spend as many times more "
            "on its batch, and takes less time"
        )
        lines.append(Line("batches", str(n_batches), why))
    lines.append(
        Line("depth", str(recipe.depth), "levels of splits in each tree; each further level halves the records of a leaf")
    )
    k = recipe.propose.n_features
    features = "all" if k is None else f"{int(k)} of {facts.n_features}"
    lines.append(
        Line(
            "features at a node", features, "few trees need all features; many trees differ more if each node sees only some"
        )
    )
    lines.append(_cuts(recipe, bool(shares_by_kind(ledger)["grid"])))
    lines.append(
        Line("a split is chosen by", _words(recipe.criterion), "one private choice for each node, over all its candidates")
    )
    lines.append(Line("a leaf releases", _words(recipe.leaf), "with noise, for every leaf, empty or not"))
    if _order(recipe):
        why = (
            "a look at all features together: it orders the records of a leaf by how much they are like the commonest class"
        )
        lines.append(Line("order", "a tree for each feature", why))
    return lines


def _cuts(recipe: Recipe, has_search: bool) -> Line:
    far_only = recipe.learned_grid is not None and recipe.learned_grid.far_only
    if has_search and not far_only:
        return Line("cuts of a number", "through its quarters", "a share of the budget finds where the numbers lie")
    value = "few at each scale" if recipe.grid.sparse else "some at each scale"
    search = "; a share of the budget finds numbers that lie far from zero for their spread" if has_search else ""
    return Line("cuts of a number", value, f"placed by the schema alone{search}")


def _releases(recipe: Recipe, facts: Facts) -> Line:
    if math.isinf(facts.epsilon):
        return Line("releases", "exact", "epsilon is infinite, so no noise is added")
    if facts.delta == 0:
        return Line(
            "releases", "pure epsilon", "delta is 0: splits are chosen by permute-and-flip, counts get geometric noise"
        )
    if recipe.without_delta:
        return Line(
            "releases",
            "pure epsilon",
            "rows x epsilon is too small for delta to pay off, or its noise would not fit 64 bits",
        )
    return Line(
        "releases", "zCDP", "delta pays off: splits are chosen by the exponential mechanism, counts get Gaussian noise"
    )


def _shares(recipe: Recipe, facts: Facts, ledger: Ledger, is_public: bool) -> list[Line]:
    """Lines on where the budget goes, as shares of epsilon (of rho once the number of rows is paid)."""
    unit = "rho" if facts.delta > 0 and not recipe.without_delta else "epsilon"
    left, lines = 1.0, []
    if not is_public:
        lines.append(_number_of_rows(recipe))
        left = 1.0 if unit == "rho" else 1 - recipe.n_rows_share
    whole = left
    if lists := [entry.mechanism for _, entry in entries(ledger.root) if entry.purpose.kind == PURPOSE]:
        own = left * SHARES[unit]
        lines.append(_share("lists of values", own, f"of {unit}{_named(lists[0], len(lists), facts.delta)}"))
        left -= own
    if recipe.target_range is not None:
        own = left * recipe.target_range.planned_share(replace(facts, delta=0.0 if recipe.without_delta else facts.delta))
        lines.append(
            _share(
                "range of the target",
                own,
                f"of {unit}; where its values lie, since public bounds are often wider, or missing",
            )
        )
        left -= own
    if grid := whole * shares_by_kind(ledger)["grid"]:
        lines.append(_share("grid", grid, f"of {unit}; to find where the numbers of each column lie"))
        left -= grid
    whole = left
    for phase, name in _before(recipe):
        own = whole * phase.share
        left -= own
        why = f"of {unit}"
        if phase.n_trees > 1:
            n_rounds = rounds(phase.n_trees, _batches(recipe))
            why += f"; {own / n_rounds:.2%} for each of {counted(phase.n_trees, 'tree')}"
        lines.append(_share(name, own, why))
    if rule := _rule(recipe):
        own = whole * rule.share * (1 - sum(rule.looks))
        lines[-1] = _share(lines[-1].what, whole * rule.share - own, f"of {unit}")
        return [*lines, _share("rule", own, f"of {unit}; the choice, and how far it leads")]
    order = _order(recipe)
    left -= whole * order.share if order else 0.0
    n_trees = _own_trees(recipe)
    plan = recipe.allocate.plan(1.0, recipe.depth)
    splits = left * sum(plan.splits)
    if recipe.centres is not None:
        lines.append(
            _share(
                "centres", splits * recipe.centres.share, f"of {unit}; the centre of each node, by which its split is chosen"
            )
        )
        splits *= 1 - recipe.centres.share
    n_levels, n_rounds = n_trees * recipe.depth, rounds(n_trees, _batches(recipe))
    each = f"{splits / (n_rounds * recipe.depth):.2%} on average for each of {counted(n_levels, 'level')}"
    lines.append(_share("splits", splits, f"of {unit}; {each}"))
    leaves = left * plan.leaves
    lines.append(_share("leaves", leaves, f"of {unit}; {leaves / n_rounds:.2%} for each of {counted(n_trees, 'tree')}"))
    if order:
        lines.append(_share("order", whole * order.share, f"of {unit}; one joint draw of noise for all features"))
    return lines


def _number_of_rows(recipe: Recipe) -> Line:
    return _share("number of rows", recipe.n_rows_share, "of epsilon; the plan follows from what is measured")


def _named(mechanism: Mechanism, n_lists: int, delta: float) -> str:
    """What lists buy, in words: which values are named."""
    columns = counted(n_lists, "column")
    if "threshold" not in mechanism.parameters:
        return f"; all values of {columns} are named"
    least, part = int(mechanism.parameters["threshold"]), n_lists * mechanism.parameters["delta"] / exact(delta)
    return f", and {float(part):.0%} of delta; in {columns}, values that some {least:,} records or more have are named"


def _unknown(schema: Schema, ledger: Ledger, left: float) -> list[Line]:
    """Lines on what the schema does not know; ``left`` is the share of the budget that the ledger is about."""
    lines = []
    for gap in gaps(schema, ledger):
        what, share = gap.unknown, f"{left * gap.share:.1%}" if gap.share else NOTHING
        why = what.cost if gap.share else what.without
        lines.append(Line(f"{what.lacks}: {listed_names(what.columns)}", share, f"{why}; {what.gain}"))
    return lines


def _noise(forest: Forest, ledger: Ledger, recipe: Recipe, facts: Facts) -> list[Line]:
    """Lines on the size of leaves against their noise, by kind of tree."""
    signal = Signal.of(forest, ledger)
    lines, first = [], 0
    kinds = [(phase.n_trees, name) for phase, name in _before(recipe)]
    n_own = _own_trees(recipe)
    n_score = forest.n_trees - n_own - sum(n for n, _ in kinds)  # nothing is counted in these
    for n_trees, name in [*((n or n_score, name) for n, name in kinds), *([(n_own, "trees")] if n_own else [])]:
        if name == "linear score":
            first += n_trees
            continue
        leaves = forest.is_leaf & (forest.trees >= first) & (forest.trees < first + n_trees)
        n_batches = min(_batches(recipe), n_trees)
        size = facts.n_rows / n_batches * n_trees / leaves.sum()
        own = signal.deviations[leaves]
        deviation = float(np.sqrt(np.square(own).mean()))
        alike = "equally large and pure" if signal.release == "lead" else "equally large"
        ratio = (
            f"{size / deviation:,.3g} standard deviations of its noise, if leaves are {alike}" if deviation else "no noise"
        )
        band = NORMAL_95 * deviation
        noise = f"noise{' of its lead' if signal.release == 'lead' else ''} ± {band:,.{decimals(band)}f}"
        noise += "" if np.allclose(own, deviation) else " on average"
        lines.append(Line(f"leaf of the {name}", f"{size:,.0f} records, {noise}", ratio))
        first += n_trees
    return lines


def _before(recipe: Recipe) -> list[tuple[Step, str]]:
    """The steps that come before the recipe's own trees, each with the name of its trees; all of them if it has none."""
    steps = recipe.stages.phases if isinstance(recipe.stages, Sequential) else ()
    n_before = len(steps) - (0 if _rule(recipe) else 2 if _order(recipe) else 1)
    return [(step, _name(step)) for step in steps[:n_before]]


def _rule(recipe: Recipe) -> Linear | None:
    """The step that ends in a rule instead of trees, if the recipe has one."""
    last = _last(recipe)
    return last if isinstance(last, Linear) else None


def _order(recipe: Recipe) -> Order | None:
    """The step that comes after the recipe's own trees, if it has one."""
    last = _last(recipe)
    return last if isinstance(last, Order) else None


def _batches(recipe: Recipe) -> int:
    """The number of batches that trees take turns on; 1 if each has all records."""
    return recipe.stages.batches if isinstance(recipe.stages, Sequential) else 1


def _last(recipe: Recipe) -> Step | None:
    return recipe.stages.phases[-1] if isinstance(recipe.stages, Sequential) else None


def _own_trees(recipe: Recipe) -> int:
    """The number of trees that the recipe grows after those steps."""
    return recipe.n_trees - sum(step.n_trees for step, _ in _before(recipe))


def _name(step: Step) -> str:
    if isinstance(step, Linear):
        return "linear score"
    assert isinstance(step, Phase)
    if step.one_feature_each:
        return "marginal trees"
    return "tree without splits" if step.parts.get("depth") == 0 else "deep tree"


def _share(what: str, share: float, why: str) -> Line:
    return Line(what, f"{share:.1%}", why)


def _words(part: Any) -> str:
    return WORDS[type(part)]
