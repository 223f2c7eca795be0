"""Checks of what a model file holds, since the code that uses it does not check again. Public values only."""

import re
from datetime import date
from typing import Any

import numpy as np

from dpforest.errors import ModelFileError
from dpforest.forest.tree import LINKS, Forest
from dpforest.privacy.events import FORMAT, PARTS

PER_NODE = ("trees", "parents", "levels", "first_children", "features", "splits", "variances", "counts", "shares", "votes")
# No fit opens scopes inside scopes more often.
MOST_SCOPES = 50
# A fit makes two books at most; each takes a search for its rho, and each charge a fraction that is added up.
MOST_BOOKS = 8
MOST_CHARGES = 1 << 18
MOST_JOBS = 1 << 12
FRACTION = re.compile(r"[0-9]{1,400}(/[1-9][0-9]{0,399})?")
WHOLE = ("n_trees", "max_depth", "max_rows_per_person", "n_jobs")


def check_header(header: dict[str, Any]) -> None:
    """Raise unless the entries of a header have their types: a report joins, prints and adds them."""
    privacy, names = header["privacy"], header["feature_names"]
    texts = [header["estimator"], header["link"], *(names or ()), *header["made_with"], *header["made_with"].values()]
    texts += [privacy[name] for name in ("adjacency", "unit", "recipe", "variant")]
    lists = [*(privacy[name] for name in ("outside", "reasons", "public", "notes", "not_covered"))]
    texts += [header["ledger"].get("proof", ""), *(text for part in lists for text in part)]
    sound = (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(part, list) for part in lists)
        and isinstance(privacy["own_recipe"], bool)
        and isinstance(names, list | None)
        and len(set(names or ())) == len(names or ())
        and isinstance(header["draws"], bool)
        and _is_estimate(header["n_records"])
        and _is_date(header.get("trained_on"))
        and all(type(part) is float for part in header.get("vote_noise", []))
        and _is_number(header.get("n_earlier", 0))
        and isinstance(privacy.get("earlier", []), list)
        and _are_parameters(header["parameters"])
        and _is_amount(privacy["epsilon"])
        and _is_amount(privacy["delta"])
        and privacy["delta"] != "inf"
        and privacy["delta"] <= 1
        and header["ledger"].get("format", FORMAT) == FORMAT
        and all(_is_scope(book["root"], MOST_SCOPES) for book in header["ledger"]["books"])
    )
    if not sound:
        raise ModelFileError("The header of the model has an entry of the wrong type.")
    check_size(header["ledger"])


def check_size(ledger: dict[str, Any]) -> None:
    """Raise if a ledger has more books or charges than a file may hold."""
    books = ledger["books"]
    if len(books) > MOST_BOOKS or sum(_n_charges(book["root"]) for book in books) > MOST_CHARGES:
        raise ModelFileError(
            f"The ledger of a model that is kept in a file has at most {MOST_BOOKS} books and {MOST_CHARGES} charges. Use "
            "fewer trees or levels."
        )


def _n_charges(entry: dict[str, Any]) -> int:
    return sum(map(_n_charges, entry["children"])) if "scope" in entry else 1


def _are_parameters(parameters: dict[str, Any]) -> bool:
    """Whether an estimator can work with these parameters; a file must not start threads without end."""
    whole = [value for name, value in parameters.items() if name in WHOLE and value is not None]
    return (
        isinstance(parameters["recipe"], str)
        and isinstance(parameters["variant"], str)
        and isinstance(parameters["recipe_params"], dict | None)
        and _is_amount(parameters["epsilon"])
        and _is_amount(parameters["delta"])
        and parameters["delta"] != "inf"
        and parameters["random_state"] is None
        and isinstance(parameters.get("class_weight"), list | str | None)
        and all(type(value) is int and 0 < abs(value) < 1 << 63 for value in whole)
        and abs(parameters["n_jobs"] or 0) <= MOST_JOBS
    )


def _is_estimate(value: Any) -> bool:
    if value is None:
        return True
    numbers = [value["value"], value["deviation"]]
    return (
        len(value) == 2
        and all(type(number) in (int, float) and abs(number) < 1e100 for number in numbers)
        and numbers[1] >= 0
    )


def _is_date(value: Any) -> bool:
    """Whether a value is None or the text of a date, in the one form that is written."""
    return value is None or (isinstance(value, str) and date.fromisoformat(value).isoformat() == value)


def _is_amount(value: Any) -> bool:
    return value == "inf" or (type(value) in (int, float) and 0 <= value < 1e300)


def _is_scope(entry: Any, levels: int) -> bool:
    parts = (isinstance(entry[name], str) if name == "step" else _is_number(entry[name]) for name in PARTS if name in entry)
    if not all(parts):
        return False
    if "scope" not in entry:
        names = ("leak", "reason") if "leak" in entry else ("charge", "mechanism")
        return all(isinstance(entry[name], str) for name in names) and ("leak" in entry or _is_charge(entry))
    return (
        levels > 0
        and isinstance(entry["scope"], str)
        and _is_number(entry["copies"])
        and entry["copies"] > 0
        and all(_is_scope(child, levels - 1) for child in entry["children"])
    )


def _is_charge(entry: dict[str, Any]) -> bool:
    """Whether amount and parameters are what a mechanism can run at; fractions are short, for they are added up."""
    parameters = entry.get("parameters", {})
    return (
        _is_amount(entry["amount"])
        and isinstance(parameters, dict)
        and all(isinstance(value, str) and FRACTION.fullmatch(value) for value in parameters.values())
    )


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 31


def check_structure(forest: Forest) -> None:
    """Raise unless every walk from a root ends at a leaf inside the arrays: kernels do not check."""
    if not (_has_shapes(forest) and _has_numbers(forest) and _has_splits(forest) and _is_family(forest)):
        raise ModelFileError("The arrays of the model do not fit together.")


def _has_shapes(forest: Forest) -> bool:
    n = forest.n_nodes
    return bool(
        n > 0
        and all(len(getattr(forest, name)) == n for name in PER_NODE)
        and all(getattr(forest, name).shape == (n, forest.target.n_values) for name in ("counts", "shares", "votes"))
        and forest.routes.shape[1] >= forest.domain.route_width
        and forest.noise.shape in ((0, 3), (forest.n_trees, 3))
        and forest.vote_noise.shape in ((0,), (forest.n_trees,))
        and 0 <= forest.n_earlier < forest.n_trees
    )


def _has_numbers(forest: Forest) -> bool:
    """Whether all numbers are far from where sums and squares overflow."""
    return bool(
        forest.link in LINKS
        and all(
            (np.abs(getattr(forest, name)) < 1e100).all() for name in ("counts", "variances", "shares", "votes", "noise")
        )
        and (forest.variances >= 0).all()
        and ((forest.vote_noise >= 0) & (forest.vote_noise < 1e100)).all()
        and ((forest.votes >= 0).all() or forest.link != "shares")
    )


def _has_splits(forest: Forest) -> bool:
    """Whether each split has a route of its own, so that what is said of all nodes is not much larger than the file."""
    inner = ~forest.is_leaf
    features, splits = forest.features[inner], forest.splits[inner]
    return bool(
        ((features >= 0) & (features < forest.domain.n_features)).all()
        and ((splits >= 0) & (splits < len(forest.routes))).all()
        and len(np.unique(splits)) == len(splits)
        and (forest.first_children[~inner] == -1).all()
        and (forest.features[~inner] == -1).all()
        and (forest.splits[~inner] == -1).all()
    )


def _is_family(forest: Forest) -> bool:
    """Whether roots come first, in the order of trees, and children of a node side by side, a level below, in its tree."""
    n, n_trees, parents = forest.n_nodes, forest.n_trees, forest.parents
    below = np.arange(n_trees, n)
    above = parents[n_trees:]
    if not (n_trees and (parents[:n_trees] == -1).all() and ((above >= 0) & (above < below)).all()):
        return False
    n_children, inner = np.bincount(above, minlength=n), np.flatnonzero(~forest.is_leaf)
    # Unsigned, so that no difference wraps around to an index that looks right.
    index = (below - forest.first_children[above]).astype(np.uint64)
    # The largest child that each route leads to, before nodes share routes: a file stays as large as it is.
    largest = forest.routes.max(axis=1, initial=0)[forest.splits[inner]]
    largest[forest.domain.is_wide[forest.features[inner]]] = 1  # a run, and what is beside it
    return bool(
        (forest.first_children[above] >= 0).all()
        and (index < n_children[above].astype(np.uint64)).all()
        and (largest < n_children[inner]).all()
        and (forest.trees[:n_trees] == np.arange(n_trees)).all()
        and (forest.trees[n_trees:] == forest.trees[above]).all()
        and (forest.levels[:n_trees] == 0).all()
        and (forest.levels[n_trees:] == forest.levels[above] + 1).all()
        and (np.diff(forest.levels) >= 0).all()
    )
