"""Turns the nodes of printed trees into a forest. Sees what printed algorithms return, which is not private."""

from dataclasses import replace

import numpy as np

from dpforest.forest.tree import Forest
from dpforest.parts.postprocess import plain_shares
from dpforest.parts.voting import Vote
from dpforest.recipes.published.base import Node
from dpforest.schema import Schema
from dpforest.schema.domain import Domain, derived


def compile_forest(roots: list[Node], schema: Schema, vote: Vote) -> Forest:
    """The forest of printed trees, with the votes of its leaves; its domain has the cuts of all trees."""
    levels = [roots]
    while any(node.children for node in levels[-1]):
        levels.append([child for node in levels[-1] for child in node.children])
    nodes = [node for level in levels for node in level]
    domain = _domain(nodes, schema)
    index = {id(node): number for number, node in enumerate(nodes)}
    parents, trees = np.full(len(nodes), -1), np.zeros(len(nodes), dtype=np.int64)
    trees[: len(roots)] = np.arange(len(roots))
    for number, node in enumerate(nodes):
        for child in node.children:
            parents[index[id(child)]] = number
            trees[index[id(child)]] = trees[number]
    inner = np.array([bool(node.children) for node in nodes])
    width = domain.route_width
    routes = [_route(node, domain, width) for node in nodes if node.children]
    forest = Forest(
        domain=domain,
        target=schema.target,
        trees=trees,
        parents=parents,
        levels=np.repeat(np.arange(len(levels)), [len(level) for level in levels]),
        first_children=np.array([index[id(node.children[0])] if node.children else -1 for node in nodes]),
        features=np.array([node.feature if node.children else -1 for node in nodes]),
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
