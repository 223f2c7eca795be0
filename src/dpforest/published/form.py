"""Printed forms of recipes: the rows that they open, what their algorithms have in common, and their fits. NOT private.

A leak in the ledger names each reason why the claim of the paper does not hold; its total is then infinite, so a model made
here is never called private.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from dpforest.errors import AccountingError, ParameterError, SchemaError
from dpforest.fitting import Algorithm
from dpforest.forest.tree import Forest
from dpforest.growing.learnt import INSTEAD
from dpforest.parts.postprocess import plain_shares
from dpforest.parts.recipe import COMMON_PARAMETERS, Recipe
from dpforest.parts.voting import Vote
from dpforest.pipeline import public_facts
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.recipes import is_listed
from dpforest.records.columns import fine_steps
from dpforest.records.dates import derived_columns
from dpforest.records.encoding import plain_values
from dpforest.records.scan import Batch, is_usable
from dpforest.records.vault import Vault
from dpforest.schema import FINE_STEPS, Bounded, Classes, Feature, Numeric, Schema
from dpforest.schema.domain import Domain, derived, too_long
from dpforest.schema.grid import MOST_TABLED

NO_BOUNDS = "numbers without public bounds are taken to lie between the least and the greatest value of the rows"


@dataclass(frozen=True)
class Rows:
    """The rows of a table, opened.

    ``columns`` has a column for each of ``features``, which are those that trees may ask for (of a date there are several):
    floats for a numeric feature (NaN where missing) and indices in the category list for a categorical one (the next two
    indices are for "other" and missing). ``target`` has indices in the class list, or numbers in [0, 1] for a
    bounded target, scaled by its public bounds.
    """

    columns: tuple[np.ndarray, ...]
    target: np.ndarray
    schema: Schema

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        return tuple(each.part for each in derived(self.schema))

    @property
    def n_rows(self) -> int:
        return len(self.target)

    @property
    def n_classes(self) -> int:
        return self.schema.target.n_values

    def take(self, rows: np.ndarray) -> "Rows":
        """Some of the rows, chosen by index or by mask."""
        return Rows(tuple(column[rows] for column in self.columns), self.target[rows], self.schema)

    def bounded(self) -> "Rows":
        """The rows with the least and the greatest value of each numeric column as bounds, where the schema has none."""
        features = dict(self.schema.features)
        for each, column in zip(derived(self.schema), self.columns, strict=True):
            if each.of == "value" and isinstance(each.part, Numeric) and not each.part.has_bounds:
                features[each.name] = _bounded(each.part, column)
        return replace(self, schema=replace(self.schema, features=features))

    def class_counts(self, records: Any = slice(None)) -> np.ndarray:
        """The exact number of rows of each class ``(n_classes,)``, or of some of them."""
        return np.bincount(self.target[records], minlength=self.n_classes)


def _bounded(part: Numeric, column: np.ndarray) -> Numeric:
    known = column[~np.isnan(column)]
    lower, upper = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return replace(part, lower=lower, upper=upper if upper > lower else lower + 1)


def open_rows(vault: Vault, ledger: Ledger, reasons: Iterable[str], purpose: str) -> Rows:
    """The rows of a vault, opened after the ledger has a leak for each reason; they must fit in memory."""
    reasons = tuple(reasons)
    if not reasons:  # a statement would promise what no noise keeps
        raise AccountingError("Rows are opened for a reason, which the ledger states; none was given.")
    for reason in reasons:
        ledger.leak(purpose, reason)
    parts = vault.batches(partial(_plain, vault.schema))._value
    columns = tuple(np.concatenate(pieces) for pieces in zip(*(own for own, _ in parts), strict=True))
    return Rows(columns, np.concatenate([target for _, target in parts]), vault.schema).bounded()


def _plain(schema: Schema, batch: Batch, workers: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """The columns and the target of a batch."""
    features, usable, target = derived(schema), is_usable(batch.values), schema.target
    values = zip(derived_columns(batch.columns, features), features, strict=True)
    kept = batch.values[usable]
    return (
        [plain_values(*pair)[usable] for pair in values],
        kept if isinstance(target, Classes) else fine_steps(kept, target) / FINE_STEPS,
    )


@dataclass(frozen=True)
class Split:
    """A split on one feature.

    One on a numeric feature has increasing ``cuts``; child k gets the values between cut k-1 (included) and cut k, the last
    child also the missing ones. One on a categorical feature has ``groups``: child k gets the codes in ``groups[k]``, the
    last child also those in none.
    """

    feature: int
    cuts: tuple[float, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def n_children(self) -> int:
        return len(self.groups) or len(self.cuts) + 1

    def route(self, column: np.ndarray) -> np.ndarray:
        """The index of the child ``(n_records,)`` that each value of the feature goes to."""
        if self.groups:
            indices = np.array([index for group in self.groups for index in group], dtype=np.int64)
            child = np.full(max(column.max(initial=0), indices.max(initial=0)) + 1, len(self.groups) - 1)
            child[indices] = np.repeat(np.arange(len(self.groups)), [len(group) for group in self.groups])
            return child[column]
        return np.where(np.isnan(column), len(self.cuts), np.searchsorted(self.cuts, column, side="right"))


@dataclass
class Node:
    """A node of a tree that a printed algorithm grows, with all below it; a leaf has no split.

    ``counts`` is what it keeps: class counts, or (1 - mean, mean) of a bounded target, noisy or exact as the paper has it.
    """

    counts: np.ndarray
    split: Split | None = None
    children: "list[Node]" = field(default_factory=list)


@dataclass(frozen=True)
class Published:
    """A printed algorithm, and the reasons why its claim of privacy does not hold.

    ``train(rows, epsilon, recipe, rng)`` returns the roots of its trees. ``leaks`` are the reasons, each with its section of
    docs/review.md.
    ``sound_for`` lists tasks for which the printed algorithm keeps its claim; there the private variant runs, which then is
    the same.
    """

    train: Callable[[Rows, float, Recipe, np.random.Generator], list[Node]]
    leaks: tuple[str, ...]
    sound_for: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()  # parameters of the recipe, or "name=word", that the paper does not have


def get_published(name: str) -> Published:
    """The printed algorithm of the recipe with that name."""
    published: Published = import_module(f"dpforest.published.{name.replace('-', '_')}").PUBLISHED
    return published


def laplace(counts: np.ndarray, scale: float, rng: np.random.Generator) -> np.ndarray:
    """Counts with Laplace noise in floating point, as the papers have it; no noise at scale 0."""
    return counts + rng.laplace(0.0, scale, size=np.shape(counts)) if scale > 0 else counts.astype(float)


def exponential_choice(scores: np.ndarray, rate: float, rng: np.random.Generator) -> int:
    """An index drawn with probability proportional to exp(rate * score), or the best at infinite rate."""
    if np.isinf(rate):
        return int(np.argmax(scores))
    return int(np.argmax(rate * scores + rng.gumbel(size=len(scores))))


def gini(counts: np.ndarray) -> np.ndarray:
    """The Gini index of counts along their last axis: 1 - sum of squared shares; 0 for an empty group."""
    sizes = counts.sum(axis=-1, keepdims=True)
    shares = np.divide(counts, sizes, out=np.zeros(counts.shape), where=sizes > 0)
    return np.where(sizes[..., 0] > 0, 1 - np.square(shares).sum(axis=-1), 0.0)


def bootstrap(rows: Rows, rng: np.random.Generator) -> tuple[Rows, np.ndarray]:
    """n rows drawn with replacement, and a mask of the rows that were not drawn."""
    drawn = rng.integers(0, max(rows.n_rows, 1), rows.n_rows)
    left = np.ones(rows.n_rows, dtype=bool)
    left[drawn] = False
    return rows.take(drawn), left


def equal_parts(rows: Rows, n_parts: int, rng: np.random.Generator) -> list[Rows]:
    """Shuffled rows, cut into parts of equal size: adding a record can change two parts (docs/review.md, 2.8)."""
    return [rows.take(part) for part in np.array_split(rng.permutation(rows.n_rows), n_parts)]


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
    splits = [node.split for node in nodes if node.split is not None]
    domain = _domain(splits, schema)
    # The children of a level, node after node, are the next one.
    n_children = np.array([len(node.children) for node in nodes])
    parents = np.concatenate([np.full(len(roots), -1), np.repeat(np.arange(len(nodes)), n_children)])
    trees = np.arange(len(nodes))
    for number in range(len(roots), len(nodes)):
        trees[number] = trees[parents[number]]
    inner = n_children > 0
    width = domain.route_width
    routes = [_route(split, domain, width) for split in splits]
    features = np.full(len(nodes), -1)
    features[inner] = [split.feature for split in splits]
    forest = Forest(
        domain=domain,
        target=schema.target,
        trees=trees,
        parents=parents,
        levels=np.repeat(np.arange(len(levels)), [len(level) for level in levels]),
        first_children=np.where(inner, len(roots) + np.cumsum(n_children) - n_children, -1),
        features=features,
        splits=np.where(inner, np.cumsum(inner) - 1, -1),
        routes=np.array(routes, dtype=np.uint16).reshape(-1, width),
        counts=np.array([node.counts for node in nodes], dtype=float),
        variances=np.zeros(len(nodes)),
    )
    forest = plain_shares(forest)
    return replace(forest, votes=vote.votes(forest), draws=vote.draws)


def _domain(splits: list[Split], schema: Schema) -> Domain:
    """The features of a schema with all cuts that some split has."""
    features = derived(schema)
    found: list[set[float]] = [set() for _ in features]
    for split in splits:
        found[split.feature].update(split.cuts)
    return Domain(features, tuple(np.array(sorted(cuts), dtype=float) for cuts in found))


def _route(split: Split, domain: Domain, width: int) -> np.ndarray:
    """The child ``(width,)`` of each code of the split's feature; 0 beyond the codes that it has."""
    n_codes = int(domain.n_codes[split.feature])
    route = np.zeros(width, dtype=np.int64)
    if split.groups:
        route[:n_codes] = split.route(np.arange(n_codes))
        return route
    cuts = domain.cuts[split.feature]
    # The child of a bin is that of its lower end; the first bin has none, so a value below all cuts stands for it.
    lower_ends = np.concatenate([[np.nextafter(cuts[0], -np.inf) if len(cuts) else 0.0], cuts, [np.nan]])
    route[:n_codes] = split.route(lower_ends)
    return route
