"""A tree of any depth, made by hand."""

import numpy as np

from dpforest import Classes, Numeric
from dpforest.forest.tree import Forest
from dpforest.schema.domain import Derived, Domain


def chain_forest(depth):
    """One tree that goes deeper at each cut, and values that end at each of its leaves."""
    cuts = np.arange(1.0, 17.0)
    domain = Domain((Derived("x", 0, Numeric(0, 20)),), (cuts,))
    n_nodes = 2 * depth + 1
    nodes = np.arange(n_nodes)
    inner = np.isin(nodes, [0, *range(2, n_nodes - 1, 2)]) & (depth > 0)
    indices = np.cumsum(inner) - 1
    # Record is below its cut: first child, a leaf; else the second, which asks for the next cut.
    routes = np.array([[int(code > level) for code in range(len(cuts) + 2)] for level in range(depth)], dtype=np.uint16)
    shares = np.stack([nodes + 1.0, np.full(n_nodes, 3.0)], axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    forest = Forest(
        domain=domain,
        target=Classes(["no", "yes"]),
        trees=np.zeros(n_nodes, dtype=np.int64),
        parents=np.where(nodes == 0, -1, (nodes - 1) // 2 * 2),
        levels=(nodes + 1) // 2,
        first_children=np.where(inner, nodes + 1, -1),
        features=np.where(inner, 0, -1),
        splits=np.where(inner, indices, -1),
        routes=routes.reshape(depth, len(cuts) + 2),
        counts=shares * 10,
        variances=np.ones(n_nodes),
        shares=shares,
        votes=shares,
    )
    return forest, np.arange(0.5, 17.0)
