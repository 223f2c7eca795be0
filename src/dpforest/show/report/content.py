"""Everything that the report shows, as plain data made of a fitted model. Released values only."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dpforest.budget import Budget
from dpforest.common.text import figure
from dpforest.errors import ParameterError
from dpforest.model.effects import Effects
from dpforest.model.file import model_digest, today
from dpforest.model.importances import importance_rows
from dpforest.model.signal import Signal, released_doubts, too_small_to_tell
from dpforest.parts.recipe import Recipe
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import NEIGHBOURS, Statement, group_loss, row_loss
from dpforest.recipes import get_recipe
from dpforest.schema import Categorical, Classes, Date, Feature, Schema
from dpforest.schema.kinds import Target
from dpforest.schema.words import format_words, in_words, unit_words
from dpforest.show.charges import gaps, grouped_charges, picture, ways_to_compose
from dpforest.show.report.attached import about_content, audit_content, budget_content
from dpforest.show.report.evaluations import evaluation_content

# One sentence for each mechanism that a ledger may name.
MECHANISMS = {
    "geometric": "Adds whole-number noise to a count (two-sided geometric, the discrete form of Laplace noise).",
    "k-norm": "Adds whole-number noise to many sums at once (one joint draw, as wide as the largest move of one of them).",
    "gaussian": "Adds whole-number noise to a count (discrete Gaussian).",
    "permute-and-flip": "Chooses one of several options by chance, the better ones with higher probability; each option is "
    "visited in random order and kept with a probability that falls with its distance from the best.",
    "exponential": "Chooses one of several options by chance, with probability growing exponentially in how good it is.",
    "private selection": "Keeps the best of a random number of runs and forgets the others; this is what the choice costs "
    "on top of one run.",
    "exact": "Releases the exact value; used only where epsilon is infinite.",
    "none": "An exact value was opened without any protection.",
}
# Said in every report, beside what the statement of the model lists.
ALSO_NOT_COVERED = (
    "what is true of a group and so of its members, whether or not they are in the table: a model is made to learn that",
)
# What one more row, or one more person, means depends on the unit.
SEVERAL = {
    "record": "people with several rows in the table: their loss is a multiple of that of one row",
    "person": "people whose rows carry several ids: each id counts as a person, and their losses add up",
}
# What the page repeats of a statement.
STATED = (
    "holds", "sentence", "cautions", "reasons", "own_recipe", "outside", "proof", "epsilon", "delta", "unit", "adjacency",
)  # fmt: skip
BEFORE, GROUP_SIZES = (0.01, 0.1, 0.5, 0.9), (1, 2, 5, 10)


def report_content(
    model: Any,
    audit: dict[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    effects: Effects | None = None,
    evaluation: Any = None,
) -> dict[str, Any]:
    """Everything that both the page and its twin show beside effects; infinite numbers are still numbers."""
    statement = model.privacy_
    return {
        "written": today(),
        "guarantee": guarantee(statement),
        "about": about_content(about),
        "budget": budget_content(budget, model),
        "ledger": _ledger(model.ledger_),
        "inputs": inputs(model.schema_) | {"unknown": [gap.to_dict() for gap in gaps(model.schema_, model.ledger_)]},
        "making": _making(model),
        "not_covered": [*statement.not_covered, *ALSO_NOT_COVERED, SEVERAL[statement.unit]],
        "notes": list(statement.notes),
        "audit": audit_content(audit, statement),
        "evaluation": evaluation_content(evaluation, model),
        "forest": _forest(model, effects),
    }


def certainty(before: float, epsilon: float) -> float:
    """The largest probability after seeing a release of what had the probability ``before``: odds times exp(epsilon)."""
    share = before / (before + (1 - before) * math.exp(-min(max(epsilon, -700.0), 700.0)))
    return min(share, math.nextafter(1, 0))


def guarantee(statement: Statement) -> dict[str, Any]:
    """What the report says of the guarantee: the promise, its proof and, only where it holds, what it means as odds."""
    epsilon, holds = statement.epsilon, statement.holds
    several = [(rows, _amounts(group_loss(epsilon, statement.delta, rows))) for rows in GROUP_SIZES]
    return {name: getattr(statement, name) for name in STATED} | {
        "rows_of_unit": statement.rows,
        "replace_one": _amounts(group_loss(epsilon, statement.delta, 2)),
        "one_row": _amounts(row_loss(statement)),
        "neighbours": NEIGHBOURS,
        "earlier": [asdict(part) for part in statement.earlier],
        "in_all": dict(zip(("epsilon", "delta", "unit"), statement.in_all, strict=True)),
        "odds": (math.exp(epsilon) if epsilon < 700 else math.inf) if holds else None,
        "certainty": [
            {"before": before, "least": certainty(before, -epsilon), "most": certainty(before, epsilon)}
            for before in (BEFORE if holds else ())
        ],
        "several": [
            {"units": rows, **amounts, "most": certainty(0.5, rows * epsilon)} for rows, amounts in several if holds
        ],
    }


def _amounts(loss: tuple[float, float]) -> dict[str, float]:
    return dict(zip(("epsilon", "delta"), loss, strict=True))


def _ledger(ledger: Ledger) -> dict[str, Any]:
    drawn, groups = picture(ledger), grouped_charges(ledger)
    return {
        "budget": {"epsilon": ledger.epsilon, "delta": ledger.delta},
        "rows_of_unit": ledger.rows,
        "spent": ledger.spent,
        "charges": sum(group["charges"] for group in groups),
        "groups": groups,
        "leaks": [{"label": leak.label, "reason": leak.reason} for leak in ledger.leaks],
        "ways": sorted(ways_to_compose(drawn)),
        "books": len(ledger.books),
        "in_rho": any(book.accountant.unit == "rho" for book in ledger.books),
        "sample_share": float(ledger.sample_share),
        "picture": drawn,
    }


def inputs(schema: Schema) -> dict[str, Any]:
    """What the report says was taken as known before anyone looked at the table."""
    target = schema.target
    if isinstance(target, Classes):
        known = {"kind": "classes", "classes": list(target.labels), "other": target.other, "lower": None, "upper": None}
    else:
        known = {"kind": "number", "classes": None, "other": None, "lower": target.lower, "upper": target.upper}
    return {
        "features": [{"name": name, **_feature(part)} for name, part in schema.features.items()],
        "target": {"name": target.name, **known, "words": in_words(target, _six_digits)},
        "n_rows": None if schema.n_rows is None else int(schema.n_rows),
        "one_row_per_person": schema.one_row_per_person,
        "unit_words": unit_words(schema),
        "vouched_by": schema.vouched_by,
        "format": format_words(schema.format.to_dict()) or None,
        "read_off_the_rows": schema.source == "assume-public",
    }


def _feature(part: Feature) -> dict[str, Any]:
    """What the report says of a column; ``words`` say how it is read where it has no list of categories."""
    known: dict[str, Any] = {"categories": None, "buckets": None, "learnt": False, "lower": None, "upper": None}
    if isinstance(part, Categorical):
        buckets = None if part.categories or part.learn else part.buckets
        known |= {"categories": list(part.categories) or None, "buckets": buckets, "learnt": part.learn}
    else:
        known |= {"lower": part.lower, "upper": part.upper}
    return {"kind": kind_of(part), **known, "words": in_words(part, _six_digits)}


def kind_of(part: Feature | Target) -> str:
    """The kind of a column in a word or two."""
    if isinstance(part, Date):
        return "point in time" if part.time else "date"
    if isinstance(part, Categorical | Classes):
        return "category" if isinstance(part, Categorical) else "class"
    return "whole number" if getattr(part, "integer", False) else "number"


def _six_digits(value: Any) -> str:
    return figure(value, 6)


def _making(model: Any) -> dict[str, Any]:
    """What the report says of how a model was made: recipe, mechanisms, randomness, versions and hash."""
    recipe, statement = _known_recipe(model), model.privacy_
    names = dict.fromkeys(entry["mechanism"] for entry in model.ledger_.entries())
    return {
        "estimator": type(model).__name__,
        "recipe": statement.recipe,
        "own_recipe": statement.own_recipe,
        **{name: getattr(recipe, name, None) for name in ("title", "paper", "claim")},
        "variant": statement.variant,
        "mechanisms": [
            {"name": name, "sentence": MECHANISMS.get(name, "A mechanism of the recipe's own.")} for name in names
        ],
        "seeded": statement.seeded,
        "trained_on": model.trained_on_,
        "versions": dict(model.made_with_),
        "digest": model_digest(model),
    }


def _known_recipe(model: Any) -> Recipe | None:
    """The recipe of a model, if it is known: of an own recipe a file keeps only the name."""
    if model.privacy_.own_recipe:
        return model.recipe if isinstance(model.recipe, Recipe) else None
    try:
        return get_recipe(model.privacy_.recipe)
    except ParameterError:
        return None


def _forest(model: Any, effects: Effects | None) -> dict[str, Any]:
    """What the report says of the released trees."""
    forest, measured = model.forest_, model.forest_.n_records
    signal = Signal.of(forest, model.ledger_)
    return {name: getattr(forest, name) for name in ("n_trees", "n_earlier", "n_nodes", "depth", "link")} | {
        "n_leaves": int(forest.is_leaf.sum()),
        "draws_labels": forest.draws,
        "release": signal.release,
        "records": None if measured is None else {"value": measured.value, "band": measured.band},
        "too_small_to_tell": too_small_to_tell(forest),
        "odd": released_doubts(forest, model.schema_, model.ledger_),
        "importances": importance_rows(forest, model.ledger_, effects),
        "balance": signal.balance(),
        "reliability": signal.reliability(),
    }
