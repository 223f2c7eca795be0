"""dpforest predict and evaluate: a saved forest on a table, and how good it is there, exactly or for a price."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli import options
from dpforest.cli.budget import open_budget
from dpforest.cli.console import errors, print_json, say, show_table, steps
from dpforest.common import text
from dpforest.common.files import check_writable, whole_file
from dpforest.errors import ParameterError

PREDICTION, PROBABILITY = "prediction", "probability_"


@options.takes_format
def predict(
    model: options.Model,
    table: Annotated[str, typer.Argument(help=f"{options.TABLE}, with the features of the model.")],
    out: Annotated[
        str,
        typer.Option(
            help="Where to write predictions: .csv, .parquet, or a new table duckdb:///FILE::TABLE, postgresql://…::TABLE."
        ),
    ],
    id: Annotated[
        list[str] | None,
        typer.Option(
            help="A column to copy before the predictions, which says which row is which; may be repeated. Rows of a "
            "database have no order, so there one is needed."
        ),
    ] = None,
    raw_text: options.RawText = False,
    *,
    read_as: options.ReadAs,
) -> None:
    """Write a prediction for each row of a table: in its order, or with ids of the rows.

    Example: [bold]dpforest predict adult.dpf new.csv --out predictions.csv[/bold]
    """
    from dpforest.estimators import load_model
    from dpforest.records.doors import is_database, shown_address
    from dpforest.records.people import Ids
    from dpforest.records.source import Asked

    if not is_database(out):
        options.check_ending(Path(out), "Predictions are written", ".csv", ".parquet")
        check_writable(out, model, table)
    ids = id or []
    _check_ids(ids, is_database(table) or is_database(out))
    forest = load_model(model)
    forest.n_jobs = -1
    with steps("Predicting") as progress, _written_to(out, len(ids), raw_text) as write:
        reader = options.opened(table, read_as(forest.schema_.format), names_lines=True)
        as_before, n_rows, known = Ids(), 0, set[str]()
        for part in reader.chunks(Asked(forest.schema_, besides=ids), progress):
            write(_predicted(forest, part.features, as_before(part.besides)))
            n_rows += len(part.features)
            known |= {name for name in forest.schema_.features if part.features[name].null_count < len(part.features)}
    say(f"Predictions: {shown_address(out)}")
    if unread := [text.shortened(name) for name in forest.schema_.features if n_rows and name not in known]:
        counts = f"Nothing could be read in {', '.join(unread)}, so it counts as missing."
        say(f"{counts} 'dpforest schema check --table' says more.", errors)


def _check_ids(ids: list[str], has_no_order: bool) -> None:
    """Raise unless each column of ids is named once, and none as a column of predictions is."""
    if not ids and has_no_order:
        raise ParameterError(
            "Rows of a table in a database have no order, so nobody could tell whose prediction is whose. Name a column "
            "that says which row is which: --id COLUMN."
        )
    for name in ids:
        if ids.count(name) > 1:
            raise ParameterError(f"--id names column {name!r} more than once.")
        if name.lower() == PREDICTION or name.lower().startswith(PROBABILITY):
            raise ParameterError(
                f"Column {name!r}, named by --id, is called as predictions are. Rename it in the table, or use another."
            )


def _predicted(forest: Any, part: Any, ids: Any) -> Any:
    """Ids and predictions of some rows as a table of Arrow, in the order of the rows."""
    import numpy as np
    import pyarrow as pa

    from dpforest.evaluation import predicted_indices
    from dpforest.show.export.json import valid_text

    names, columns = [PREDICTION], []
    if not hasattr(forest, "classes_"):
        columns.append(pa.array(forest.predict(part)))
    else:
        shares, classes = forest.predict_proba(part), forest.classes_.tolist()
        # A column of a file holds labels as they are if all are of one plain kind, else as text.
        kinds = {type(label) for label in classes}
        is_plain = len(kinds) == 1 and kinds <= {int, float, bool}
        labels = pa.array(classes if is_plain else [valid_text(str(label)) for label in classes])
        columns.append(labels.take(pa.array(predicted_indices(forest, part, shares))))
        columns += map(pa.array, np.ascontiguousarray(shares.T))
        names += [valid_text(f"{PROBABILITY}{label}") for label in classes]
    # As lists: names may look the same, such as those of the labels 1 and "1".
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return pa.Table.from_arrays([*ids.columns, *columns], schema=pa.schema([*ids.schema, *fields]))


@contextmanager
def _written_to(out: str, n_ids: int, raw_text: bool) -> Iterator[Callable[[Any], None]]:
    """A function that writes tables of Arrow one after the other; their first ``n_ids`` columns are ids.

    In a CSV file text that a spreadsheet would run is escaped, unless ``raw_text`` says to keep it.
    """
    import pyarrow.csv
    import pyarrow.parquet

    from dpforest.records.doors import is_database

    if is_database(out):
        from dpforest.records.sources.written import new_table

        with new_table(out, n_ids) as write:
            yield write
        return
    is_csv, writer = out.endswith(".csv"), None
    # The writer is closed before its file is, however the block ends.
    with whole_file(out) as file, ExitStack() as stack:

        def write_part(rows: Any) -> None:
            nonlocal writer
            rows = _escaped(rows) if is_csv and not raw_text else rows
            kind: Any = pyarrow.csv.CSVWriter if is_csv else pyarrow.parquet.ParquetWriter
            writer = writer or stack.enter_context(kind(file, rows.schema))
            writer.write_table(rows)

        yield write_part


def _escaped(rows: Any) -> Any:
    """A table with its names and texts as ``cell`` gives them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def escape(column: Any) -> Any:
        runs = pc.and_not(
            pc.match_substring_regex(column, text.FORMULA), pc.match_substring_regex(column, text.PLAIN_NUMBER)
        )
        return pc.if_else(runs, pc.binary_join_element_wise("'", column, ""), column)

    columns = [escape(column) if pa.types.is_string(column.type) else column for column in rows.columns]
    return pa.Table.from_arrays(columns, [*map(text.cell, rows.column_names)])


@options.takes_format
def evaluate(
    model: options.Model,
    table: Annotated[str, typer.Argument(help=f"{options.TABLE}, with the features and the target.")],
    public: Annotated[
        bool, typer.Option("--public", help="The table is public, or exact scores on it are already paid for.")
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="For a private table: the budget of all scores, with noise.")] = None,
    groups: options.Groups = None,
    max_rows_per_person: options.RowsPerPerson = None,
    budget: options.BudgetName = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Also by subgroups of one column: a column with a list, or COLUMN=30,60 for a number."),
    ] = None,
    compare: Annotated[Path | None, typer.Option(help="Also against another model, on the same rows.")] = None,
    threshold: Annotated[float, typer.Option(help="For two classes: above it the second one is predicted.")] = 0.5,
    out: Annotated[Path | None, typer.Option(help="Write a page, .html, and the same as JSON beside it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON, with the charge.")] = False,
    *,
    read_as: options.ReadAs,
) -> None:
    """Score a model on a table: exactly with --public, else with noise, which is charged.

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
    twin = None if out is None else options.check_page(out, "A page is written", model, table, compare)
    charged_to = open_budget(budget)
    forest, other = load_model(model), None if compare is None else load_model(compare)
    if groups is None and max_rows_per_person is not None:
        groups = forest.schema_.id_column
    check_groups(groups, max_rows_per_person)
    cells = Cells.of(forest, _subgroups(by, forest), other, threshold)
    # Not by the parameter n_jobs: it is part of the model, whose hash the evaluation carries.
    with steps("Evaluating") as progress, parallel_config(n_jobs=-1):
        source = options.opened(table, read_as(forest.schema_.format), names_lines=public)
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
        title = f"{text.shortened(repr(content['labels'][1]))} predicted above {row['threshold']} (in the table above: 0.5)"
        show_table(title, names, [[row[name] for name in names]])
    if groups := scored["groups"]:
        rows = [
            (text.shortened(row["group"]), row["rows"], *(row["words"] if row["enough"] else ["too few records to say"]))
            for row in groups["rows"]
        ]
        heads = ("subgroup", "rows", *(text.shortened(name) for name in groups["names"]))
        show_table(f"by {text.shortened(groups['column'])}", heads, rows)
    if comparison := scored["comparison"]:
        _table("against the other model", ("score", "value", "other rows"), comparison["scores"])
        say(comparison["verdict"])
    if scored["has_bins"]:
        say(text.BINS_MEAN)
    say(text.other_rows_words(content["unit"]))
    if content["public"]:
        say("These scores are exact: publish them only if the table is public or they are paid for.")
        return
    if content["task"] == "number":
        lower, upper = (text.figure(end, 4) for end in content["range"])
        say(f"Targets below {lower} or above {upper}, the range of the model, count as its ends: noise must hide each.")
    promise = forest.privacy_
    delta = f", δ = {text.figure(promise.delta)}" if promise.delta else ""
    both = "the two" if content["unit"] == promise.unit else "the losses of each person"
    say(
        f"{content['loss']} If these rows also trained the model (ε = {text.figure(promise.epsilon)}{delta} for each "
        f"{promise.unit}), {both} add up. {text.BAND_MEANS}"
    )


def _table(title: str, heads: tuple[str, ...], scores: list[dict[str, str]]) -> None:
    kinds = {"score": "name", "value": "value", "bins": "binning", "other rows": "sampling"}
    show_table(title, heads, [[text.shortened(score[kinds[head]]) for head in heads] for score in scores])
