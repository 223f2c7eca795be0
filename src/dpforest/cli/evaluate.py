"""dpforest evaluate: how good a model is on a table that is public, or at what price otherwise."""

import math
from itertools import chain
from typing import Annotated

import typer

from dpforest.cli.console import print_json, say, show_table, steps
from dpforest.cli.options import TABLE, BudgetName, Model, ReadAs, takes_format
from dpforest.common.text import shortened


@takes_format
def evaluate(
    model: Model,
    table: Annotated[str, typer.Argument(help=f"{TABLE}, with the features and the target.")],
    public: Annotated[
        bool, typer.Option("--public", help="The table is public, or exact scores on it are already paid for.")
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option(help="For a private table: the budget of a score with noise.", show_default=False)
    ] = None,
    budget: BudgetName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON, with the charge.")] = False,
    *,
    read_as: ReadAs,
) -> None:
    """Score a model on a table: exactly if you say that the table is public, else with noise that is charged.

    Example: [bold]dpforest evaluate adult.dpf ward.csv --epsilon 0.1[/bold]
    """
    from dpforest.cli.budget import open_budget
    from dpforest.common.text import BAND_MEANS, count_words, figure, with_band
    from dpforest.errors import ParameterError
    from dpforest.estimators import load_model
    from dpforest.evaluation import evaluate_privately, evaluate_public
    from dpforest.records.reader import Asked
    from dpforest.records.tables import open_reader
    from dpforest.schema import Bounded

    if public == (epsilon is not None):
        raise ParameterError(
            "A score is a release about the records that it is computed from. Say --public if the table is public or its "
            "exact scores are already paid for, or --epsilon for a score with noise; one of the two."
        )
    if public and budget is not None:
        raise ParameterError("Exact scores of a public table are charged to no budget; leave --budget out.")
    charged_to = open_budget(budget)
    forest = load_model(model)
    forest.n_jobs = -1
    with steps("Evaluating") as progress:
        reader = open_reader(table, read_as(forest.schema_.format), names_lines=public)
        read = reader.parts(Asked(forest.schema_, with_target=True), progress)
        # What a table lacks shows when its first rows are read, and nothing is charged then.
        parts = ((part.features, part.target) for part in chain([next(read)], read))
        found = evaluate_public(forest, parts) if epsilon is None else evaluate_privately(forest, parts, epsilon, charged_to)
    if as_json:
        print_json(found.to_dict())
        return
    title = count_words(found.n_rows, found.n_rows_margin if epsilon else None, "rows")
    rows = []
    for score in found.scores:
        value = with_band(score.value, score.margin) if score.margin > 0 else f"{score.value:.4f}"
        rows.append((shortened(score.name), "none" if math.isnan(score.value) else value))
    show_table(title, ("score", "value"), rows)
    if epsilon is None:
        say("These scores are exact: publish them only if the table is public or they are paid for.")
    else:
        if isinstance(ends := forest.forest_.target, Bounded):
            lower, upper = (figure(end, 4) for end in ends.range)
            say(f"Targets below {lower} or above {upper}, the range of the model, count as its ends: noise must hide each.")
        promise = forest.privacy_
        persons = "" if promise.unit == "record" else " Someone with several rows in this table spends it for each of them."
        say(
            f"Spent epsilon = {found.epsilon:.4g} of the records of this table. {BAND_MEANS} "
            f"If these records also trained the model (epsilon = {promise.epsilon:.4g} for each {promise.unit}), the two "
            f"add up.{persons}"
        )
