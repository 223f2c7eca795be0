"""Tables of encoded records, their neighbours, and the public facts about them."""

import math

import numpy as np
from tests.support.strategies import random_codes

from dpforest import Classes
from dpforest.parts.shape import Facts
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.ledger import Ledger
from dpforest.published.form import open_rows
from dpforest.records.vault import Vault
from dpforest.schema import FINE_STEPS
from dpforest.schema.domain import Domain


def opened(sealed):
    """The exact value behind a seal, as whoever breaks a promise would get it."""
    seen = []
    sealed.map(seen.append)
    return seen[0]


def random_table(schema, grid, n_rows, seed):
    """Random codes and target codes; the label follows the first feature, so that splits have something to find."""
    domain, rng = Domain.of(schema, grid), np.random.default_rng(seed)
    codes = random_codes(domain, n_rows, rng)
    if isinstance(schema.target, Classes):
        labels = (codes[0] > domain.n_codes[0] // 2) + (rng.random(n_rows) < 0.2)
        return domain, codes, labels % len(schema.target.labels)
    return domain, codes, rng.integers(0, FINE_STEPS + 1, n_rows)


def with_one_more(codes, labels, record, label):
    """The table with one record appended."""
    return np.column_stack([codes, record]).astype(codes.dtype), np.append(labels, label)


def vault_of(schema, fine):
    """A vault of records that have a bounded target, given in fine steps of its range, and features without values."""
    numbers = schema.target.mean_of(np.asarray(fine) / FINE_STEPS)
    return Vault.seal(np.full((len(numbers), len(schema.features)), np.nan, dtype=object), numbers, schema)


def facts_about(domain, target, n_rows=3000.0, n_trees=3, epsilon=1.0, delta=0.0):
    """What a planner may know about a table of that domain and target."""
    n_classes = len(target.labels) if isinstance(target, Classes) else None
    n_numeric = int(domain.is_numeric.sum())
    mean_children = float(domain.n_codes.mean() - 1)
    return Facts(n_rows, epsilon, delta, domain.n_features, n_numeric, mean_children, n_classes, n_trees)


def resolved(recipe, schema, n_trees=3, depth=2, **facts):
    """The recipe with the parts and numbers that follow from public facts."""
    domain = Domain.of(schema, recipe.grid)
    return recipe.resolve(facts_about(domain, schema.target, **facts), n_trees, depth)


def rows_of(vault):
    """The rows of a vault, opened for a test."""
    return open_rows(vault, Ledger(make_accountant(math.inf, 0.0)), ["a test reads them"], "test")
