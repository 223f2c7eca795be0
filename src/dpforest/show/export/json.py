"""A model as JSON, and what all exports share: kinds and texts of values, and the distinct splits. Released values only."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpforest.common.text import to_json
from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.schema import LONGEST_TEXT, Categorical, Date
from dpforest.schema.domain import Domain
from dpforest.schema.grid import MOST_TABLED

HALF = 1 << 63  # whole numbers of 64 bits are below it, and not below its negative
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


def kind_of(values: Sequence[Hashable]) -> str:
    """The kind of all values: ``text``, ``boolean``, ``whole`` (64 bits), ``number`` (doubles hold it exactly) or ``mixed``.

    NaN is a number: as a category it is never met, since a table has it for missing values.
    """
    if all(isinstance(value, str) for value in values):
        return "text"
    if all(isinstance(value, bool) for value in values):
        return "boolean"
    if all(isinstance(value, int) and not isinstance(value, bool) and -HALF <= value < HALF for value in values):
        return "whole"
    return "number" if all(_is_double(value) for value in values) else "mixed"


def is_number(values: Sequence[Hashable]) -> bool:
    """Whether all values are numbers or booleans that doubles tell apart."""
    return all(_is_double(value) for value in values)


def _is_double(value: Any) -> bool:
    if isinstance(value, float):
        return True
    try:
        return isinstance(value, int) and float(value) == value
    except OverflowError:
        return False


def texts_of(values: Sequence[Hashable]) -> list[str]:
    """A text for each value, no two alike.

    Text stands for itself, True and False are ``true`` and ``false``, anything else is what ``str`` gives. One that is
    taken already, by text or by a value before it, gets the name of its type behind it: ``1`` beside ``"1"`` is ``1 (int)``.
    """
    texts: list[str] = [valid_text(value) if isinstance(value, str) else "" for value in values]
    taken: set[str] = set()
    # Text that can stay as it is comes first, then text that cannot, then what is no text.
    order = sorted(range(len(values)), key=lambda index: (not isinstance(values[index], str), texts[index] != values[index]))
    for index in order:
        value = values[index]
        text = texts[index] if isinstance(value, str) else valid_text(str(value))
        text = text.lower() if isinstance(value, bool) else text
        while text in taken:
            text += f" ({type(value).__name__})"
        taken.add(text)
        texts[index] = text
    return texts


def valid_text(text: str) -> str:
    """The text, with what UTF-8 cannot hold written as an escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def none_code(categories: Sequence[Hashable]) -> int:
    """The code of a value that is not there: the index of None if it is a category, else the last code."""
    return next((index for index, value in enumerate(categories) if value is None), len(categories) + 1)


def json_value(value: Any) -> Any:
    """A value as JSON holds it: a tuple as ``{"tuple": [...]}``, what else it lacks as ``{"type": ..., "text": ...}``."""
    is_finite = type(value) is int or (isinstance(value, float) and math.isfinite(value))
    if value is None or isinstance(value, str | bool) or is_finite:
        return value
    if type(value) is tuple:
        return {"tuple": json_value(list(value))}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    return {"type": type(value).__name__, "text": str(value)}


@dataclass(frozen=True)
class CodeSplit:
    """A feature, and for each of its codes which child a record goes to."""

    feature: int
    routes: np.ndarray


@dataclass(frozen=True)
class DistinctSplits:
    """The distinct splits, and which of them each node makes, ``(n_nodes,)``; -1 at a leaf."""

    distinct: list[CodeSplit]
    of_node: np.ndarray

    @classmethod
    def of(cls, forest: Forest) -> "DistinctSplits":
        """The splits of a forest; raises if one is on a wide feature."""
        distinct: list[CodeSplit] = []
        of_node = np.full(forest.n_nodes, -1, dtype=np.int64)
        for feature in range(forest.domain.n_features):
            nodes = np.flatnonzero(~forest.is_leaf & (forest.features == feature))
            if not len(nodes):
                continue
            if forest.domain.is_wide[feature]:
                raise ParameterError(
                    f"An export lists, for each split, all categories of {forest.domain.names[feature]!r}, which are more "
                    f"than {MOST_TABLED - 2}. Save the model instead, or fit one without that list: Categorical()."
                )
            routes = forest.routes[forest.splits[nodes], : forest.domain.n_codes[feature]]
            rows, indices = np.unique(routes, axis=0, return_inverse=True)
            of_node[nodes] = len(distinct) + indices.reshape(-1)
            distinct += [CodeSplit(feature, row) for row in rows]
        return cls(distinct, of_node)


def met_cuts(domain: Domain, feature: int) -> np.ndarray:
    """The cuts to compare an unclipped value with: none above the upper bound, -inf for those at the lower or below."""
    cuts, (lower, upper) = domain.cuts[feature], domain.number(feature).range
    return np.where(cuts <= lower, -np.inf, cuts)[cuts <= upper]


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
    splits = DistinctSplits.of(forest)
    return {
        "n_trees": forest.n_trees,
        "depth": forest.depth,
        "link": forest.link,
        "draws": forest.draws,
        "target": json_value(forest.target.to_dict()),
        "features": [_feature(forest.domain, feature) for feature in range(forest.domain.n_features)],
        "splits": [{"feature": split.feature, "routes": split.routes.tolist()} for split in splits.distinct],
        "nodes": _nodes(forest, splits),
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


def _nodes(forest: Forest, splits: DistinctSplits) -> list[dict[str, Any]]:
    conditions = [
        [forest.domain.describe(split.feature, split.routes == child) for child in range(int(split.routes.max()) + 1)]
        for split in splits.distinct
    ]
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
