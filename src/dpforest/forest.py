"""The pipeline: rows go in sealed, a public forest comes out. Read this first."""

from collections.abc import Callable
from dataclasses import replace

from dpforest.domain import Domain
from dpforest.growing.together import Together
from dpforest.mechanisms import Entropy
from dpforest.privacy.amounts import divide
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.published.base import Published
from dpforest.published.compiling import compile_forest
from dpforest.recipe import Recipe
from dpforest.records.base import Source
from dpforest.rules import Facts
from dpforest.schema import Classes
from dpforest.tree import Forest


def fit_forest(
    vault: Source,
    recipe: Recipe,
    ledger: Ledger,
    entropy: Entropy,
    *,
    n_trees: int | None = None,
    max_depth: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Forest:
    """Grow a released forest within the ledger's budget.

    Privacy: all releases pass the gate; what this function returns is public.
    """
    gate = Gate(ledger, entropy)
    facts, amount = _facts(vault, recipe.shaped(n_trees, max_depth), gate)
    recipe = recipe.resolve(facts, n_trees, max_depth)
    recipe.check(vault.schema)
    facts = replace(facts, n_trees=recipe.n_trees)
    shards = vault.encode(Domain.of(vault.schema, recipe.grid))
    progress("encoded")
    return (recipe.stages or Together()).train(shards, recipe, amount, gate, facts, progress)


def fit_published(
    vault: Source,
    recipe: Recipe,
    printed: Published,
    ledger: Ledger,
    entropy: Entropy,
    *,
    n_trees: int | None = None,
    max_depth: int | None = None,
) -> Forest:
    """Train exactly what a paper prints. NOT private: the rows are opened, and the ledger says why the claim fails."""
    gate = Gate(ledger, entropy)
    sealed = vault.rows()
    for reason in printed.leaks:
        rows = gate.leak(sealed, reason, recipe.name)
    facts = replace(_public_facts(vault, recipe, ledger), n_rows=float(rows.n_rows))
    recipe = recipe.resolve(facts, n_trees, max_depth)
    roots = printed.train(rows, ledger.accountant.epsilon, recipe, entropy.generator())
    return compile_forest(roots, vault.schema, recipe.vote)


def _facts(vault: Source, recipe: Recipe, gate: Gate) -> tuple[Facts, float]:
    """What the recipe may plan with, and what is left of the budget after a noisy number of rows was paid, if needed."""
    facts, amount = _public_facts(vault, recipe, gate.ledger), gate.ledger.accountant.budget
    if vault.schema.n_rows is not None or not recipe.needs_rows:
        return facts, amount
    share, amount = divide(amount, [recipe.n_rows_share, 1 - recipe.n_rows_share])
    noisy, _ = gate.add_noise(vault.count(), Sensitivity(1, 1), share, "number of rows")
    return replace(facts, n_rows=float(noisy[0])), amount


def _public_facts(vault: Source, recipe: Recipe, ledger: Ledger) -> Facts:
    schema = vault.schema
    domain = Domain.of(schema, recipe.grid)
    return Facts(
        n_rows=float(schema.n_rows or 0),
        epsilon=ledger.accountant.epsilon,
        delta=ledger.accountant.delta,
        n_features=schema.n_features,
        n_numeric=int(domain.is_numeric.sum()),
        # "Other" and "missing" are codes, but not values that a paper would count.
        mean_domain=float((domain.n_codes - 1 - ~domain.is_numeric).mean()),
        n_classes=len(schema.target.labels) if isinstance(schema.target, Classes) else None,
    )
