"""A model as JSON: everything that was released, and enough to predict from. Public values only."""

from typing import Any

import numpy as np

from dpforest.common.jsonable import to_json
from dpforest.forest.tree import Forest
from dpforest.schema import LONGEST_TEXT, Categorical, Date
from dpforest.schema.domain import Domain
from dpforest.show.export.listed import json_value
from dpforest.show.export.splits import Split, Splits

FORMAT = "dpforest-release"
VERSION = 1
# How a stranger finds the code of a value whose categories are compared as texts.
TEXT_RULE = (
    f"The text of a value: text is itself, up to {LONGEST_TEXT} characters; a whole number from -2**63 to 2**64 - 1, of any "
    "type, is its decimal digits (17 and 17.0 are '17', true is '1', minus zero is '0'); null and NaN are missing; anything "
    "else has no text."
)
BUCKET_RULE = (
    f"{TEXT_RULE} The code of a text is its bucket: the first two hex digits of the MD5 of its UTF-8 bytes, read as a "
    "number, modulo 'buckets'. The code of a value without a text is 'buckets', that of a missing one 'buckets' + 1."
)
LIST_RULE = (
    f"{TEXT_RULE} The code of a text is its index in 'categories', or their number if it is not there or there is no text; "
    "that of a missing value is their number + 1."
)
# What a feature asks of a date, and what these rules count.
OF_DATE = {
    "second": "s",
    "day": "floor(s / 86400)",
    "weekday": "(floor(s / 86400) + 3) mod 7, as an index among the categories",
    "month": "the month 1 to 12 of day floor(s / 86400) in the Gregorian calendar",
    "hour": "floor((s mod 86400) / 3600)",
}
SECONDS = (
    "s is the whole seconds from 1970-01-01T00:00:00Z to the point in time, rounded down; a date is its midnight, a point "
    "in time without a zone is one of UTC, and those beyond the years 1 to 9999 count as the first or last second of these"
)


def json_text(model: Any, forest: Forest) -> str:
    """A fitted estimator as JSON text, in ASCII, with the forest that votes for it."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": type(model).__name__,
        "made_with": model.made_with_,
        "schema": json_value(model.schema_.to_dict()),
        "privacy": model.privacy_.to_dict(),
        "ledger": model.ledger_.to_dict(),
        "forest": forest_to_dict(forest),
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
        **({"vote_noise": forest.vote_noise.tolist()} if len(forest.vote_noise) else {}),
    }


def _feature(domain: Domain, feature: int) -> dict[str, Any]:
    own, part = domain.derived[feature], domain.features[feature]
    content = {"name": own.name, **json_value(part.to_dict())}
    if isinstance(part, Date) or own.of != "value":
        asked = own.of if not isinstance(part, Date) else "second" if part.time else "day"
        content |= {"column": domain.column_names[own.column], "of": asked, "rule": f"{OF_DATE[asked]}; {SECONDS}"}
        content |= {"range": list(part.range)} if isinstance(part, Date) else {}
    if not isinstance(part, Categorical):
        return {**content, "cuts": domain.cuts[feature].tolist()}
    return content | {"codes": LIST_RULE if part.categories else BUCKET_RULE} if part.by_text else content


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
