"""A model as JSON: everything that was released, and enough to predict from. Public values only."""

from typing import Any

import numpy as np

from dpforest.common.jsonable import to_json
from dpforest.forest.tree import Forest
from dpforest.schema import Categorical
from dpforest.schema.domain import Domain
from dpforest.show.export.listed import json_value
from dpforest.show.export.splits import Split, Splits

FORMAT = "dpforest-release"
VERSION = 1


def json_text(model: Any) -> str:
    """A fitted estimator as JSON text, in ASCII."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": type(model).__name__,
        "made_with": model.made_with_,
        "schema": json_value(model.schema_.to_dict()),
        "privacy": model.privacy_.to_dict(),
        "ledger": model.ledger_.to_dict(),
        "forest": forest_to_dict(model.forest_),
    }
    return to_json(content)


def forest_to_dict(forest: Forest) -> dict[str, Any]:
    """A forest as plain values, ready for JSON: its features with their codes, its distinct splits, its nodes."""
    splits = Splits.of(forest)
    conditions = [_conditions(forest.domain, split) for split in splits.distinct]
    return {
        "n_trees": forest.n_trees,
        "depth": forest.depth,
        "link": forest.link,
        "draws": forest.draws,
        "target": json_value(forest.target.to_dict()),
        "features": [_feature(forest.domain, feature) for feature in range(forest.domain.n_features)],
        "splits": [{"feature": split.feature, "routes": split.routes.tolist()} for split in splits.distinct],
        "nodes": _nodes(forest, splits, conditions),
    }


def _feature(domain: Domain, feature: int) -> dict[str, Any]:
    part = domain.features[feature]
    content = {"name": domain.names[feature], **json_value(part.to_dict())}
    return content if isinstance(part, Categorical) else {**content, "cuts": domain.cuts[feature].tolist()}


def _conditions(domain: Domain, split: Split) -> list[str]:
    """For each child of a split, in words, the condition that leads to it; "never" where no value does."""
    n_children = int(split.routes.max()) + 1
    return [domain.describe(split.feature, split.routes == child) for child in range(n_children)]


def _nodes(forest: Forest, splits: Splits, conditions: list[list[str]]) -> list[dict[str, Any]]:
    children: list[list[int]] = [[] for _ in range(forest.n_nodes)]
    for node in np.flatnonzero(forest.parents >= 0).tolist():
        children[forest.parents[node]].append(node)
    nodes = []
    for node, parent in enumerate(forest.parents.tolist()):
        leaf = bool(forest.is_leaf[node])
        index = node - int(forest.first_children[parent])
        said = conditions[splits.of_node[parent]] if parent >= 0 else []
        nodes.append(
            {
                "tree": int(forest.trees[node]),
                "level": int(forest.levels[node]),
                "parent": None if parent < 0 else parent,
                "condition": "always" if parent < 0 else said[index] if index < len(said) else "never",
                "feature": None if leaf else int(forest.features[node]),
                "split": None if leaf else int(splits.of_node[node]),
                "children": children[node],
                "counts": forest.counts[node].tolist(),
                "noise_standard_deviation": float(np.sqrt(forest.variances[node])),
                "shares": forest.shares[node].tolist(),
                "votes": forest.votes[node].tolist(),
            }
        )
    return nodes
