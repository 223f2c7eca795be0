"""The pipeline of one fit, from a vault to a released forest. Sees sealed values, by protocol. Read this first."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from dpforest.errors import ParameterError
from dpforest.forest.tree import Estimate, Forest
from dpforest.growing.earlier import covers, is_better, share_of, starting
from dpforest.growing.grower import Together
from dpforest.growing.learnt import learn_lists, threshold_delta
from dpforest.growing.target import with_range
from dpforest.parts.recipe import Job, Recipe
from dpforest.parts.sampling import PoissonBootstrap
from dpforest.parts.shape import Facts
from dpforest.privacy.accountants import WHOLE, make_accountant
from dpforest.privacy.amounts import add, divide, exact, round_down
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.base import Counter, SealedTable
from dpforest.schema import Bounded, Classes, Schema
from dpforest.schema.domain import Domain

NO_SAMPLE = "sample_rows asks for a secret sample, and a private search draws none. Leave out sample_rows: all are used."


def fit_forest(
    vault: SealedTable,
    recipe: Recipe,
    gate: Gate,
    *,
    n_trees: int | None = None,
    max_depth: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    earlier: Forest | None = None,
) -> Forest:
    """The released forest of a recipe on the rows of a vault, within the budget of the gate's ledger.

    ``earlier`` is a released forest of trees that add up, for a schema with the same features and target: if it is worth it
    on these rows, its trees come first, and their cuts, lists of values and range of the target are used again.

    Privacy: all releases pass the gate; what this function returns is public.
    """
    ledger = gate.ledger
    recipe = with_range(recipe, vault.schema.target)
    if recipe.secret_sample.is_asked and vault.in_one_book:
        raise ParameterError(NO_SAMPLE)
    # A plan weighs records against their noise, so by the epsilon that a record sees.
    facts = public_facts(vault.schema, recipe, ledger.accountant.record_epsilon, ledger.delta)
    if earlier is not None:
        facts = replace(facts, n_earlier=earlier.n_trees)
        starting(recipe.resolve(facts, n_trees, max_depth), earlier).check(vault.schema)
    amount, measured = ledger.accountant.budget, None
    if vault.schema.n_rows is None and recipe.shaped(n_trees, max_depth).needs_rows:
        measured, amount = _noisy_rows(vault, recipe.n_rows_share, gate)
        facts = replace(facts, n_rows=measured.value)
    share = WHOLE if vault.in_one_book else recipe.secret_sample.share(facts)
    facts = sampled_facts(facts, share, ledger)
    sketch, recipe = recipe, starting(recipe.resolve(facts, n_trees, max_depth), earlier)
    recipe.check(vault.schema)
    pure, of_lists = recipe.without_delta and not vault.in_one_book, 0.0
    learns = bool(vault.schema.learnt) and earlier is None
    if learns:
        pure = pure or isinstance(recipe.sample, PoissonBootstrap)  # which has no analysis with delta
        of_lists = threshold_delta(ledger.delta, pure)
    if share < 1 or (ledger.delta > 0 and (pure or of_lists > 0)):
        amount = _begin(ledger, of_lists if pure else ledger.delta, of_lists, share)
    if share < 1:
        vault = vault.sampled(share, gate.entropy)
        progress("sample drawn")
    lists = {} if earlier is None else earlier.domain.lists
    if learns:
        lists, amount = learn_lists(vault, amount, gate, progress)
    facts = replace(facts, delta=ledger.accountant.delta)
    counter = None
    if earlier is not None:
        counter, amount = _followed(vault, earlier, facts, amount, gate, progress)
        if counter is None:  # the rest is a fit as without an earlier model
            facts, earlier = replace(facts, n_earlier=0), None
            recipe = sketch.resolve(facts, n_trees, max_depth)
    facts = replace(facts, n_trees=recipe.n_trees)
    if counter is None:
        counter, amount = _encoded(vault, recipe, lists, facts, amount, gate, progress)
    if recipe.first_look is not None:
        recipe, amount = recipe.first_look.release(counter, recipe, amount, gate)
    stages = recipe.stages or Together()
    forest = stages.train(Job(counter, recipe, gate, facts, progress), amount)
    return replace(forest, n_records=measured, n_earlier=0 if earlier is None else earlier.n_trees)


def _followed(
    vault: SealedTable, earlier: Forest, facts: Facts, amount: float, gate: Gate, progress: Callable[[str], None]
) -> tuple[Counter | None, float]:
    """The records by the codes of an earlier model, or None if it is not kept; and the remaining amount."""
    target, share = earlier.target, share_of(facts)
    own, rest = divide(amount, [share, 1 - share])
    if isinstance(target, Bounded) and target != vault.schema.target:
        of_range, own = divide(own, [1, 1])
        if not covers(vault, target, of_range, gate):
            return None, add(own, rest)
        vault = vault.narrowed(target)
    counter = vault.encode(earlier.domain)
    progress("encoded")
    return counter if is_better(counter, earlier, own, gate) else None, rest


def _encoded(
    vault: SealedTable,
    recipe: Recipe,
    lists: Mapping[str, list[str]],
    facts: Facts,
    amount: float,
    gate: Gate,
    progress: Callable[[str], None],
) -> tuple[Counter, float]:
    """The records by codes, after releasing a target range and a grid where needed; and the remaining amount."""
    if recipe.target_range is not None:
        target, amount = recipe.target_range.release(vault, amount, gate, facts)
        vault = vault.narrowed(target)
    domain = Domain.of(vault.schema, recipe.grid).with_lists(lists)
    if recipe.learned_grid is not None:
        domain, amount = recipe.learned_grid.release(vault, domain, recipe.grid.bins, facts.n_rows, amount, gate)
    counter = vault.encode(domain)
    progress("encoded")
    return counter, amount


def _noisy_rows(vault: SealedTable, share: float, gate: Gate) -> tuple[Estimate, float]:
    """A released number of rows, for ``share`` of epsilon, and the amount that is left.

    With delta the number has a book of its own, in epsilon, so that it may decide what releases follow (see ``Ledger``).
    Where all charges are in one book, it takes that share of rho.
    """
    ledger = gate.ledger
    has_own = ledger.delta > 0 and not vault.in_one_book
    if has_own:
        own, rest = divide(ledger.epsilon, [share, 1 - share])
        of_lists = threshold_delta(ledger.delta, pure=False) if vault.schema.learnt else 0.0
        make_accountant(rest, ledger.delta, ledger.rows, of_lists)  # refuses too small a budget before anything is charged
        ledger.begin(make_accountant(own, 0.0, ledger.rows))
        own = ledger.accountant.budget
    else:
        own, rest = divide(ledger.accountant.budget, [share, 1 - share])
    noisy, variance = gate.add_noise(vault.count(), Sensitivity(1, 1), own, "number of rows")
    measured = Estimate(float(noisy[0]), math.sqrt(variance))
    return measured, _begin(ledger, ledger.delta) if has_own else rest


def _begin(ledger: Ledger, delta: float, of_lists: float = 0.0, share: Fraction = WHOLE) -> float:
    """Begin a new book of the ledger with all the epsilon that is left; returns the budget of the book.

    ``of_lists`` is the part of delta that lists of values take; ``share`` that of the records which the book is about.
    """
    left = round_down(exact(ledger.epsilon) - exact(ledger.spent))
    ledger.begin(make_accountant(left, delta, ledger.rows, of_lists, share))
    return ledger.accountant.budget


def sampled_facts(facts: Facts, share: Fraction, ledger: Ledger) -> Facts:
    """The facts about a secret sample of this share: fewer rows, each with more to spend."""
    if share == 1:
        return facts
    accountant = make_accountant(ledger.epsilon, ledger.delta, ledger.rows, share=share)
    return replace(
        facts, n_rows=facts.n_rows * float(share), epsilon=accountant.record_epsilon, delta=accountant.noise_delta
    )


def public_facts(schema: Schema, recipe: Recipe, epsilon: float, delta: float) -> Facts:
    """The public facts for planning a recipe; epsilon and delta are those of one record."""
    domain = Domain.of(schema, recipe.grid)
    return Facts(
        n_rows=float(schema.n_rows or 0),
        epsilon=epsilon,
        delta=delta,
        n_features=domain.n_features,
        n_numeric=int(domain.is_numeric.sum()),
        mean_children=float(recipe.propose.n_children(domain).mean()),
        n_classes=len(schema.target.labels) if isinstance(schema.target, Classes) else None,
    )
