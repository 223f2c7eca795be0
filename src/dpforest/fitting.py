"""One fit of an estimator: check parameters, seal rows, release a forest, and state what is promised of it.

Everything is checked before anything is spent. Hands tables on to ``records`` and never looks into them.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.utils.validation import validate_data

from dpforest.budget.fits import charged, check_budget, outcomes_of_fit, row_epsilon, what_a_fit_is
from dpforest.common.other_fits import added_up, learnt_before
from dpforest.common.text import counted, percent
from dpforest.common.work import said
from dpforest.errors import (
    LeakWarning,
    NothingLearntWarning,
    ParameterError,
    RepeatedFitWarning,
    SchemaError,
    TableError,
    UncoveredWarning,
    UnitWarning,
    shown,
)
from dpforest.forest.tree import Forest
from dpforest.growing.earlier import starting
from dpforest.growing.learnt import INSTEAD, check_delta
from dpforest.mechanisms import Entropy
from dpforest.model.class_weights import check_class_weight
from dpforest.model.earlier import Earlier
from dpforest.model.file import today, versions
from dpforest.model.signal import released_doubts, uncertain_range
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import ALL_ROWS
from dpforest.pipeline import fit_forest, public_facts
from dpforest.privacy.accountants import check_whole, is_whole, make_accountant
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement, large_delta, proof_in_words, sample_words
from dpforest.recipes import get_recipe
from dpforest.recipes.catalogue import equals_listed, fingerprint, outside_parts
from dpforest.records import doors
from dpforest.records.assume import assume_public
from dpforest.records.base import SealedTable
from dpforest.records.given import given_frame
from dpforest.records.people import People, check_groups, check_no_feature, name_of_ids
from dpforest.records.source import Source
from dpforest.records.vault import Vault
from dpforest.schema import Bounded, Classes, Schema
from dpforest.schema.patterns import expanded
from dpforest.schema.words import GRID, unit_doubts
from dpforest.show.charges import gaps

ASSUMED = "assume-public"
FITTED = ("forest_", "privacy_", "schema_", "classes_", "made_with_", "trained_on_")
# Gives the schema of a table that a recipe accepts, and its sealed rows; of each person at most as many as ``People`` says.
Seal = Callable[[Recipe, People | None, Earlier | None], tuple[Schema, SealedTable]]


@dataclass(frozen=True)
class Algorithm:
    """What releases the forest of a fit, the reasons why it is not private, and notes for the statement."""

    release: Callable[..., Forest] = fit_forest
    leaks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def fit_estimator(
    model: Any,
    seal: Seal,
    progress: Callable[[str], None] | None,
    groups: Any = None,
    table: Any = None,
    other: Callable[[Any, Recipe], Algorithm] | None = None,
) -> None:
    """Train an estimator on the rows that ``seal`` gives of a table; afterwards it has its fitted attributes.

    ``other`` gives the algorithm that runs instead of the private one. Fits of one ``table`` are counted, if it is given, to
    warn of what they cost together.
    """
    # The day is taken before any row is seen: when a fit ends tells how long it took, and that tells of its rows.
    began, recipe, uncovered = today(), check_parameters(model), learnt_before()
    for note in uncovered:
        warnings.warn(note, UncoveredWarning, stacklevel=3)
    check_groups(groups, model.max_rows_per_person)
    algorithm = Algorithm() if other is None else other(model, recipe)
    # Also where a schema was read off rows before, and then kept.
    broken = _not_private(model, model.random_state is not None, getattr(model.schema, "source", model.schema))
    earlier = _earlier_model(model, recipe)
    broken += [] if earlier is None else earlier.broken
    leaks = [*broken, *algorithm.leaks]
    check_budget(model.budget, _unit(model), leaks)
    ledger, whose = Ledger(_accountant(model)), whose_parts(model, recipe)
    if earlier is not None:  # whose trees may be part of the model
        whose["outside"] = tuple(sorted({*whose["outside"], *earlier.privacy.outside}))
    ledger.proof, parts = proof_in_words(recipe.name, model.variant, **whose), fingerprint(recipe, type(model))
    gate = model._make_gate(ledger, model.random_state)  # noqa: SLF001 - an audit watches it
    schema, vault = seal(recipe, None if groups is None else People(ledger.rows, gate.entropy), earlier)
    for doubt in unit_doubts(schema, _unit(model), is_promised=not leaks):
        warnings.warn(doubt, UnitWarning, stacklevel=3)
    used = recipe
    if model.budget is not None and ledger.delta > 0:
        # What a sample makes of zCDP is an epsilon with a delta of its own, which a budget cannot add up.
        used = replace(recipe, secret_sample=ALL_ROWS)
    shape = {"n_trees": model.n_trees, "max_depth": model.max_depth}
    is_asked = model.budget is not None or groups is not None
    outcomes = outcomes_of_fit(used, schema, ledger.epsilon, ledger.delta, **shape) if is_asked else []
    if groups is not None and not schema.learnt:  # with lists nothing is proved of a row but what follows for two persons
        may_sample = not vault.in_one_book and _may_sample(used, schema, ledger)
        whose["row_epsilon"] = row_epsilon(outcomes, ledger.delta, ledger.rows, may_sample)
    what = what_a_fit_is(recipe.name, whose["own_recipe"])
    with closing(vault), charged(model.budget, what, outcomes, ledger), said():
        if model.budget is None and not leaks and table is not None:
            for note in added_up(model, table, ledger.epsilon, ledger.delta, _unit(model)):
                warnings.warn(note, RepeatedFitWarning, stacklevel=3)
        # From here on charges are made. They stay on the estimator even if the fit fails, and no older model does.
        for name in FITTED:
            vars(model).pop(name, None)
        model.ledger_ = ledger
        start = None if earlier is None else earlier.forest
        forest = algorithm.release(vault, used, gate, **shape, progress=progress or (lambda step: None), earlier=start)
    model.schema_, model.forest_, model.made_with_, model.trained_on_ = schema, forest, versions(), began
    notes = (*algorithm.notes, *_notes(model, uncovered, earlier))
    model.privacy_ = _state(model, recipe.name, gate.entropy, notes, earlier, fingerprint=parts, **whose)
    if isinstance(schema.target, Classes):
        model.classes_ = forest.labels
    # An infinite epsilon says by itself that nothing is protected, a printed form does not.
    if ledger.leaks or (model.privacy_.reasons and not math.isinf(model.epsilon)):
        warnings.warn(f"The model is not private: {'; '.join(model.privacy_.reasons)}.", LeakWarning, stacklevel=3)
    for doubt in released_doubts(forest, schema, ledger):
        warnings.warn(doubt, NothingLearntWarning, stacklevel=3)


def fit_sealed(model: Any, table: SealedTable) -> None:
    """Train an estimator on the part of a search that trains; such fits are not counted, since their number is secret."""
    fit_estimator(model, lambda recipe, people, earlier: (table.schema, table), None)


def _may_sample(recipe: Recipe, schema: Schema, ledger: Ledger) -> bool:
    """Whether a fit may be made from a secret sample, as far as public facts tell."""
    if schema.n_rows is None:
        return recipe.secret_sample.needs_rows
    return recipe.secret_sample.share(public_facts(schema, recipe, ledger.epsilon, ledger.delta)) < 1


def check_parameters(model: Any) -> Recipe:
    """The recipe of an estimator, with ``recipe_params`` set; raises if any parameter of the estimator cannot be used."""
    for name in ("n_trees", "max_depth", "max_rows_per_person"):
        check_whole(name, getattr(model, name), ", or None")
    if model.n_jobs is not None and (not is_whole(model.n_jobs) or not 0 < abs(model.n_jobs) < 1 << 31):
        raise ParameterError(f"n_jobs must be a whole number other than 0, or None, not {shown(model.n_jobs)}.")
    _accountant(model)
    if model.variant not in ("private", "published"):
        raise ParameterError(f"variant must be 'private' or 'published', not {shown(model.variant)}.")
    recipe = model.recipe if isinstance(model.recipe, Recipe) else get_recipe(model.recipe)
    if model.recipe_params is not None and not isinstance(model.recipe_params, dict):
        raise ParameterError(f"recipe_params must be a dictionary or None, not {shown(model.recipe_params)}.")
    recipe = recipe.with_parameters(model.recipe_params)
    if recipe.secret_sample.is_asked and model.budget is not None and model.delta > 0:
        raise ParameterError(
            "sample_rows asks for a secret sample. With delta, its loss has a delta of its own that a budget cannot add up. "
            "Set delta = 0, fit without budget, or leave out sample_rows."
        )
    return recipe


def _accountant(model: Any) -> Any:
    """The accountant for the epsilon, delta and rows of a person of an estimator; raises if they cannot be used."""
    return make_accountant(model.epsilon, model.delta, model.max_rows_per_person or 1)


def named_ids(model: Any, groups: Any) -> Any:
    """The name of the column of ids of a table that is not in memory: ``groups``, or else what the schema names."""
    is_asked = groups is None and model.max_rows_per_person is not None
    return getattr(model.schema, "id_column", None) if is_asked else groups


def whose_parts(model: Any, recipe: Recipe) -> dict[str, Any]:
    """Two fields of the statement: whether the recipe is the caller's own, and which code from outside the library runs."""
    facts = model.schema if isinstance(model.schema, Schema) else None
    kinds = [] if facts is None else [type(part) for part in (facts, facts.target, *facts.features.values())]
    outside = outside_parts(recipe)
    is_own = bool(outside) or not equals_listed(recipe)
    return {"own_recipe": is_own, "outside": tuple(sorted({*outside, *outside_parts(type(model), kinds)}))}


def _unit(model: Any) -> str:
    """The unit of privacy of an estimator."""
    return "record" if model.max_rows_per_person is None else "person"


def seal_table(
    model: Any,
    X: Any,
    y: Any,
    groups: Any,
    client: Any,
    progress: Callable[[str], None],
    recipe: Recipe,
    people: People | None,
    earlier: Earlier | None = None,
) -> tuple[Schema, SealedTable]:
    """The checked schema and the sealed rows of a table, wherever it is; sets what scikit-learn keeps of a table."""
    n_jobs = effective_n_jobs(model.n_jobs)
    if client is not None or doors.is_elsewhere(X):
        if y is not None:
            raise TableError("Such a table has its target in a column that the schema names; pass y with a table in memory.")
        if isinstance(model.schema, str):
            raise SchemaError(f"Rows that are not in memory need a Schema; schema={ASSUMED!r} cannot look at them.")
        _, schema = resolve_schema(model)
        table = X if client is not None else doors.opened(X, schema.format)
        with doors.closed_if_refused(table):
            schema = _checked(model, recipe, schema, earlier, table, groups)
            vault = doors.seal_elsewhere(
                table, schema, n_jobs, groups=groups, people=people, client=client, progress=progress
            )
        model.n_features_in_, model.feature_names_in_ = schema.n_features, np.array([*schema.features], dtype=object)
        return schema, vault
    frame = given_frame(X)  # a table library is asked once what a table is
    X = X if frame is None else frame
    if y is None and isinstance(model.schema, Schema):
        y, groups = doors.target_beside(X, model.schema), doors.ids_of(X, groups)
    if y is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, but the target y is None.")
    X, schema = resolve_schema(model, X, y)
    id_name = name_of_ids(groups)
    check_no_feature(id_name, schema)
    schema = _checked(model, recipe, schema, earlier, X, id_name)
    vault = Vault.seal(X, y, schema, n_jobs, groups, people)
    keep_names(model, X, schema)
    return schema, vault


def _checked(model: Any, recipe: Recipe, schema: Schema, earlier: Earlier | None, table: Any, id_name: str | None) -> Schema:
    """The schema for a table, in the order of an earlier model if there is one; raises if the fit cannot use it."""
    schema = expanded(schema, partial(doors.names_of, table), besides=[id_name])
    recipe.check(schema)
    if earlier is None:
        _check_lists(model, schema)
        return schema
    agreed = earlier.agreed(schema)  # lists of values are those of the earlier model
    if [*agreed.features] != [*schema.features] and not isinstance(table, Source) and doors.names_of(table) is None:
        raise SchemaError(
            "The earlier model has its columns in another order than this schema, and an array has no names. "
            "Give a table with names, or a schema in that order. Nothing was spent."
        )
    return agreed


def _earlier_model(model: Any, recipe: Recipe) -> Earlier | None:
    """The model that a fit starts from, if one is given; raises if the fit cannot start from any."""
    earlier = Earlier.of(model.earlier_model)
    if earlier is not None and recipe.planner is None:
        starting(recipe, earlier.forest)
    return earlier


def _check_lists(model: Any, schema: Schema) -> None:
    """Raise if the schema asks for lists of categories that this fit cannot learn."""
    if not schema.learnt:
        return
    accountant, asked = _accountant(model), f"Column {schema.learnt[0]!r} is declared Categorical(learn=True)"
    check_delta(schema, accountant.epsilon, accountant.delta)
    if model.budget is not None:
        raise ParameterError(
            f"{asked}. A list has a delta of its own, which a budget cannot add up: it has one delta for all fits. Fit "
            f"without budget. {INSTEAD}"
        )


def resolve_schema(model: Any, X: Any = None, y: Any = None) -> tuple[Any, Schema]:
    """The table and the schema of an estimator, which may be read off the table if asked for."""
    schema, kind = model.schema, Classes if is_classifier(model) else Bounded
    if isinstance(schema, str) and schema == ASSUMED:
        X, schema = assume_public(X, y, classes=kind is Classes)
    if not isinstance(schema, Schema):
        raise SchemaError(
            f"schema must be a Schema with the public bounds and categories of the table, not {shown(schema)}. "
            f"Write one (see Schema and Schema.from_file), or pass schema={ASSUMED!r} to read bounds and "
            "categories off the rows, which is not private."
        )
    if not isinstance(schema.target, kind):
        raise SchemaError(
            f"{type(model).__name__} needs a schema whose target is {kind.__name__}(...), not {schema.target!r}."
        )
    if isinstance(schema.target, Classes):
        check_class_weight(model.class_weight, schema.target)
    return X, schema


def keep_names(model: Any, X: Any, schema: Schema) -> None:
    """Set what scikit-learn keeps of a table on the estimator: how many columns the schema uses, and their names if any."""
    if type(X) is np.ndarray and X.ndim == 2:  # what is below does this too, after asking all table libraries for names
        vars(model).pop("feature_names_in_", None)
        model.n_features_in_ = X.shape[1]
        return
    # A list has no names to keep and, without a row, no columns to count.
    has_shape = len(getattr(X, "shape", ())) == 2
    shown_table = doors.header_of(X, schema) if has_shape else np.empty((0, schema.n_features))
    validate_data(model, shown_table, skip_check_array=True)


def _not_private(model: Any, seeded: bool, source: Any) -> list[str]:
    """The reasons why a fit is not private, whatever its recipe does; ``source`` says where its schema comes from."""
    assumed = f"bounds, categories and classes were read off the rows (schema={ASSUMED!r}), without noise"
    reasons = {
        "epsilon is infinite, so no noise was added": math.isinf(model.epsilon),
        "a random_state was given, and whoever knows it can undo the noise": seeded,
        assumed: isinstance(source, str) and source == ASSUMED,
    }
    return [reason for reason, applies in reasons.items() if applies]


def _state(
    model: Any, recipe: str, entropy: Entropy, notes: tuple[str, ...], earlier: Earlier | None, **parts: Any
) -> Statement:
    """The statement about a forest that was just released: what is promised, or why nothing is."""
    schema, ledger = model.schema_, model.ledger_
    reasons = _not_private(model, entropy.seeded, schema.source)
    reasons += [f"{leak.label}: {leak.reason}" for leak in ledger.leaks]
    reasons += [] if earlier is None else earlier.broken
    public = ["names, bounds and categories of the features", "classes or bounds of the target"]
    public += ["number of rows"] if schema.n_rows is not None else []
    public += [] if earlier is None else ["the earlier model that the fit started from"]
    return Statement(
        epsilon=ledger.spent,
        delta=ledger.delta,
        holds=not reasons,
        reasons=tuple(reasons),
        recipe=recipe,
        variant=model.variant,
        public=tuple(public),
        notes=notes,
        seeded=entropy.seeded,
        unit=_unit(model),
        rows=ledger.rows,
        earlier=() if earlier is None else earlier.stated(),
        **parts,
    )


def _notes(model: Any, uncovered: list[str], earlier: Earlier | None) -> Iterator[str]:
    """Sentences of the statement that weaken or explain the promise."""
    schema, ledger = model.schema_, model.ledger_
    if ledger.delta > 0 and not any(book.accountant.delta for book in ledger.books):
        yield "for this number of rows the plan makes pure-epsilon releases only, so delta was not used"
    yield from uncertain_range(model.forest_, schema, ledger)
    if earlier is not None:
        yield from earlier.notes(model.forest_, ledger.spent, _unit(model))
    if any(child.purpose.kind in GRID for child in ledger.root.children):
        for gap in gaps(schema, ledger):
            if gap.unknown.paid_for == GRID:
                yield f"{percent(gap.share)} of the loss was spent {gap.unknown.cost}"
    if ledger.sample_share < 1:
        yield sample_words(ledger.sample_share, schema.n_rows, model.forest_.n_records, _unit(model))
    if schema.learnt:
        names = ", ".join(map(repr, schema.learnt))
        if earlier is None:
            yield f"the categories of {names} were learnt from the rows, for a part of epsilon and delta"
        else:  # whether or not its trees were kept
            yield f"the categories of {names} are those of the earlier model, and were not learnt from these rows"
    yield from large_delta(ledger.delta, schema.n_rows, model.forest_.n_records)
    yield from uncovered
    if model.max_rows_per_person is not None:
        yield (
            f"a person is all rows with one id; of these at most {counted(ledger.rows, 'row')}, drawn by lot, took part, "
            "and rows without an id were left out"
        )
    if model.budget is not None:
        yield f"this fit was charged to the budget of {model.budget.dataset!r}"
