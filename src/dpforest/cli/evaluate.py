"""dpforest evaluate: how good a model is on a table that is public, or at what price otherwise."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.budget import open_budget
from dpforest.cli.console import print_json, say, show_table, steps
from dpforest.cli.options import TABLE, BudgetName, Groups, Model, ReadAs, RowsPerPerson, check_page, opened, takes_format
from dpforest.common.text import BAND_MEANS, BINS_MEAN, figure, other_rows_words, shortened
from dpforest.errors import ParameterError


@takes_format
def evaluate(
    model: Model,
    table: Annotated[str, typer.Argument(help=f"{TABLE}, with the features and the target.")],
    public: Annotated[
        bool, typer.Option("--public", help="The table is public, or exact scores on it are already paid for.")
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="For a private table: the budget of all scores, with noise.")] = None,
    groups: Groups = None,
    max_rows_per_person: RowsPerPerson = None,
    budget: BudgetName = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Also by subgroups of one column: a column with a list, or COLUMN=30,60 for a number."),
    ] = None,
    compare: Annotated[Path | None, typer.Option(help="Also against another model, on the same rows.")] = None,
    threshold: Annotated[float, typer.Option(help="For two classes: above it the second one is predicted.")] = 0.5,
    out: Annotated[Path | None, typer.Option(help="Write a page, .html, and the same as JSON beside it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON, with the charge.")] = False,
    *,
    read_as: ReadAs,
) -> None:
    """Score a model on a table: exactly if you say that the table is public, else with noise that is charged.

    Example: [bold]dpforest evaluate adult.dpf ward.csv --epsilon 0.1 --by sex --out scores.html[/bold]
    """
    from joblib import parallel_config

    from dpforest.estimators import load_model
    from dpforest.evaluation.cells import Cells
    from dpforest.evaluation.scoring import score_exactly, score_privately
    from dpforest.records.doors import rows_to_score, shown_address
    from dpforest.records.people import check_groups
    from dpforest.show.report import write_evaluation

    if public == (epsilon is not None):
        raise ParameterError(
            "A score is a release about the records that it is computed from. Say --public if the table is public or its "
            "exact scores are already paid for, or --epsilon for a score with noise; one of the two."
        )
    if public and (budget, groups, max_rows_per_person) != (None, None, None):
        raise ParameterError(
            "Exact scores of a public table are charged to nobody; leave --budget, --groups and --max-rows-per-person out."
        )
    # What is found out later would cost the records a second time.
    twin = None if out is None else check_page(out, "A page is written", model, table, compare)
    charged_to = open_budget(budget)
    forest, other = load_model(model), None if compare is None else load_model(compare)
    if groups is None and max_rows_per_person is not None:
        groups = forest.schema_.id_column
    check_groups(groups, max_rows_per_person)
    cells = Cells.of(forest, _subgroups(by, forest), other, threshold)
    # Not by the parameter n_jobs: it is part of the model, whose hash the evaluation carries.
    with steps("Evaluating") as progress, parallel_config(n_jobs=-1):
        source = opened(table, read_as(forest.schema_.format), names_lines=public)
        # What a table lacks shows when its first rows are read, and nothing is charged then.
        parts = rows_to_score(source, forest.schema_, groups, shown_address(table), progress)
        if epsilon is None:
            found = score_exactly(cells, parts)
        else:
            found = score_privately(cells, parts, epsilon, max_rows_per_person, charged_to)
    if out is not None:
        write_evaluation(found, out)
    if as_json:
        print_json(found.to_dict())
        return
    _show(found.to_dict(), forest)
    if out is not None:
        say(f"Page: {out}\nAs JSON: {twin}")


def _subgroups(asked: list[str] | None, forest: Any) -> Any:
    """What is asked for by ``--by``: a column, or a column and cuts; a column may have any name."""
    if not asked:
        return None
    by, *more = asked
    if more:
        # A repeated option would otherwise be forgotten, but for its last value, and found out after the charge.
        raise ParameterError("Subgroups are by one column: give --by once. Nothing was spent.")
    if by in forest.schema_.features or "=" not in by:
        return by
    column, _, cuts = by.rpartition("=")
    return column, cuts.split(",")


def _show(content: dict[str, Any], forest: Any) -> None:
    """Print an evaluation, given as plain values, in tables and words."""
    from dpforest.show.report.evaluations import evaluation_section

    scored = evaluation_section(content)["scored"]
    heads = ("score", "value", *(("bins",) if scored["has_bins"] else ()), "other rows")
    _table(scored["rows"], heads, scored["scores"])
    if content.get("threshold", 0.5) != 0.5:
        (row,) = (row for row in scored["thresholds"] if row["is_chosen"])
        names = ("accuracy", "recall", "specificity", "precision")
        title = f"{shortened(repr(content['labels'][1]))} predicted above {row['threshold']} (in the table above: 0.5)"
        show_table(title, names, [[row[name] for name in names]])
    if groups := scored["groups"]:
        rows = [
            (shortened(row["group"]), row["rows"], *(row["words"] if row["enough"] else ["too few records to say"]))
            for row in groups["rows"]
        ]
        heads = ("subgroup", "rows", *(shortened(name) for name in groups["names"]))
        show_table(f"by {shortened(groups['column'])}", heads, rows)
    if comparison := scored["comparison"]:
        _table("against the other model", ("score", "value", "other rows"), comparison["scores"])
        say(comparison["verdict"])
    if scored["has_bins"]:
        say(BINS_MEAN)
    say(other_rows_words(content["unit"]))
    if content["public"]:
        say("These scores are exact: publish them only if the table is public or they are paid for.")
        return
    if content["task"] == "number":
        lower, upper = (figure(end, 4) for end in content["range"])
        say(f"Targets below {lower} or above {upper}, the range of the model, count as its ends: noise must hide each.")
    promise = forest.privacy_
    delta = f", δ = {figure(promise.delta)}" if promise.delta else ""
    both = "the two" if content["unit"] == promise.unit else "the losses of each person"
    say(
        f"{content['loss']} If these rows also trained the model (ε = {figure(promise.epsilon)}{delta} for each "
        f"{promise.unit}), {both} add up. {BAND_MEANS}"
    )


def _table(title: str, heads: tuple[str, ...], scores: list[dict[str, str]]) -> None:
    kinds = {"score": "name", "value": "value", "bins": "binning", "other rows": "sampling"}
    show_table(title, heads, [[shortened(score[kinds[head]]) for head in heads] for score in scores])
