"""The pipeline: rows go in sealed, a public forest comes out. Read this first."""

from collections.abc import Callable
from dataclasses import replace

from dpforest.domain import Domain
from dpforest.growing.grower import grow
from dpforest.mechanisms import Entropy
from dpforest.postprocess import plain_shares
from dpforest.privacy.amounts import divide
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.recipe import Facts, Recipe
from dpforest.records.base import Source
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
    Domain.of(vault.schema, recipe.grid)  # a schema that cannot be encoded is refused before anything is charged
    gate = Gate(ledger, entropy)
    recipe, amount = _planned(vault, recipe, gate)
    recipe = replace(recipe, n_trees=n_trees or recipe.n_trees, depth=max_depth or recipe.depth)
    recipe.check(vault.schema)

    shards = vault.encode(Domain.of(vault.schema, recipe.grid))
    progress("encoded")
    shards.deal(lambda n_records: recipe.sample.draw(n_records, recipe.n_trees, entropy))
    plan = recipe.allocate.plan(recipe.sample.share(ledger.accountant, amount, recipe.n_trees), recipe.depth)
    with recipe.sample.scopes(ledger, recipe.n_trees):
        forest = grow(shards, recipe, plan, gate, recipe.n_trees, progress)

    forest = plain_shares(forest.summed())  # from here on all is post-processing: public in, public out
    for step in recipe.refine:
        forest = step.refine(forest)
    return replace(forest, votes=recipe.vote.votes(forest))


def _planned(vault: Source, recipe: Recipe, gate: Gate) -> tuple[Recipe, float]:
    """The recipe to run, and what is left for it after a noisy number of rows was paid, if it needs one."""
    accountant, schema = gate.ledger.accountant, vault.schema
    amount = accountant.budget
    if recipe.planner is None:
        return recipe, amount
    if schema.n_rows is not None:
        n_rows = float(schema.n_rows)
    else:
        share, amount = divide(amount, [recipe.n_rows_share, 1 - recipe.n_rows_share])
        noisy, _ = gate.add_noise(vault.count(), Sensitivity(1, 1), share, "number of rows")
        n_rows = float(noisy[0])
    n_classes = len(schema.target.labels) if isinstance(schema.target, Classes) else None
    facts = Facts(n_rows, accountant.epsilon, accountant.delta, schema.n_features, n_classes)
    return recipe.planner(facts), amount
