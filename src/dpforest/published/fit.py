"""Fits of printed algorithms: what they refuse, how they get their rows, and the forest of their trees. NOT private."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from dpforest.errors import ParameterError, SchemaError
from dpforest.fitting import Algorithm
from dpforest.forest.tree import Forest
from dpforest.growing.learnt import INSTEAD
from dpforest.parts.postprocess import plain_shares
from dpforest.parts.recipe import COMMON_PARAMETERS, Recipe
from dpforest.parts.voting import Vote
from dpforest.pipeline import public_facts
from dpforest.privacy.gate import Gate
from dpforest.published.form import Node, Published, get_published, open_rows
from dpforest.recipes import is_listed
from dpforest.records.vault import Vault
from dpforest.schema import Bounded, Numeric, Schema
from dpforest.schema.domain import Domain, derived, too_long
from dpforest.schema.grid import MOST_TABLED

NO_BOUNDS = "numbers without public bounds are taken to lie between the least and the greatest value of the rows"


def printed_form(model: Any, recipe: Recipe) -> Algorithm:
    """The printed algorithm of a recipe; the private one if that is the same. Raises if the estimator cannot run it."""
    if not (recipe.has_published_variant and is_listed(recipe)):
        own = "" if is_listed(recipe) else ", since it is not the catalogue's"
        raise ParameterError(f"Recipe {recipe.name!r} has no published variant{own}; use variant='private'.")
    printed, given = get_published(recipe.name), model.recipe_params or {}
    words = {f"{name}={value}" for name, value in given.items() if isinstance(value, str)}
    if lacking := [text for text in (*COMMON_PARAMETERS, *printed.lacks) if text in {*given, *words}]:
        raise ParameterError(f"The published variant of {recipe.name!r} takes no parameter {lacking[0]!r}.")
    if model.earlier_model is not None:
        raise ParameterError(f"The printed form of {recipe.name!r} starts from no earlier model. Use variant='private'.")
    task = "classification" if is_classifier(model) else "regression"
    if task in printed.sound_for:
        return Algorithm(notes=(f"the printed algorithm of {recipe.name!r} keeps its claim for {task}; it is what ran",))
    learnt = model.schema.learnt if isinstance(model.schema, Schema) else ()
    if learnt:
        raise ParameterError(
            f"Column {learnt[0]!r} is declared Categorical(learn=True), and the printed form of {recipe.name!r} learns no "
            f"list. Use variant='private'. {INSTEAD}"
        )
    return Algorithm(partial(fit_published, printed), printed.leaks)


def fit_published(
    printed: Published, vault: Vault, recipe: Recipe, gate: Gate, *, n_trees: int | None, max_depth: int | None, **_: Any
) -> Forest:
    """The forest of an algorithm exactly as a paper prints it. NOT private: rows are opened, and the ledger says why."""
    schema, ledger = vault.schema, gate.ledger
    _check(schema, recipe)
    lacks_bounds = any(isinstance(part, Numeric) and not part.has_bounds for part in schema.features.values())
    rows = open_rows(vault, ledger, (*printed.leaks, *([NO_BOUNDS] if lacks_bounds else [])), recipe.name)
    epsilon = ledger.accountant.record_epsilon
    facts = replace(public_facts(schema, recipe, epsilon, ledger.delta), n_rows=float(rows.n_rows))
    recipe = recipe.resolve(facts, n_trees, max_depth)
    return compile_forest(printed.train(rows, epsilon, recipe, gate.entropy.generator()), schema, recipe.vote)


def _check(schema: Schema, recipe: Recipe) -> None:
    """Raise if printed algorithms cannot use the schema."""
    if isinstance(schema.target, Bounded) and not schema.target.has_bounds:
        raise SchemaError(
            f"The printed algorithm of {recipe.name!r} computes with the range of the target, which the schema does not "
            "give. Declare Bounded(lower, upper), or use variant='private', which finds the range."
        )
    if name := too_long(schema):
        raise SchemaError(
            f"The printed algorithm of {recipe.name!r} has a table of the categories of {name!r} for each split; the "
            f"most is {MOST_TABLED - 2}. Use variant='private', or leave out the list: Categorical()."
        )


def compile_forest(roots: list[Node], schema: Schema, vote: Vote) -> Forest:
    """The forest of printed trees, with the votes of its leaves; its domain has the cuts of all trees."""
    levels = [roots]
    while any(node.children for node in levels[-1]):
        levels.append([child for node in levels[-1] for child in node.children])
    nodes = [node for level in levels for node in level]
    domain = _domain(nodes, schema)
    # The children of a level, node after node, are the next one.
    n_children = np.array([len(node.children) for node in nodes])
    parents = np.concatenate([np.full(len(roots), -1), np.repeat(np.arange(len(nodes)), n_children)])
    trees = np.arange(len(nodes))
    for number in range(len(roots), len(nodes)):
        trees[number] = trees[parents[number]]
    inner = n_children > 0
    width = domain.route_width
    routes = [_route(node, domain, width) for node in nodes if node.children]
    forest = Forest(
        domain=domain,
        target=schema.target,
        trees=trees,
        parents=parents,
        levels=np.repeat(np.arange(len(levels)), [len(level) for level in levels]),
        first_children=np.where(inner, len(roots) + np.cumsum(n_children) - n_children, -1),
        features=np.where(inner, [node.feature for node in nodes], -1),
        splits=np.where(inner, np.cumsum(inner) - 1, -1),
        routes=np.array(routes, dtype=np.uint16).reshape(-1, width),
        counts=np.array([node.counts for node in nodes], dtype=float),
        variances=np.zeros(len(nodes)),
    )
    forest = plain_shares(forest)
    return replace(forest, votes=vote.votes(forest), draws=vote.draws)


def _domain(nodes: list[Node], schema: Schema) -> Domain:
    """The features of a schema with all cuts that some node has."""
    features = derived(schema)
    found: list[set[float]] = [set() for _ in features]
    for node in nodes:
        if node.children:
            found[node.feature].update(node.cuts)
    return Domain(features, tuple(np.array(sorted(cuts), dtype=float) for cuts in found))


def _route(node: Node, domain: Domain, width: int) -> np.ndarray:
    """The child ``(width,)`` of each code of the node's feature; 0 beyond the codes that it has."""
    n_codes = int(domain.n_codes[node.feature])
    route = np.zeros(width, dtype=np.int64)
    if node.groups:
        route[:n_codes] = node.route(np.arange(n_codes))
        return route
    cuts = domain.cuts[node.feature]
    # The child of a bin is that of its lower end; the first bin has none, so a value below all cuts stands for it.
    lower_ends = np.concatenate([[np.nextafter(cuts[0], -np.inf) if len(cuts) else 0.0], cuts, [np.nan]])
    route[:n_codes] = node.route(lower_ends)
    return route
