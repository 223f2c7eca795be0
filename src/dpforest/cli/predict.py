"""dpforest predict: use a saved forest on a table; predictions are written complete or not at all."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.console import errors, say, steps
from dpforest.cli.options import TABLE, Model, RawText, ReadAs, check_ending, opened, takes_format
from dpforest.common.files import check_writable, whole_file
from dpforest.common.text import FORMULA, PLAIN_NUMBER, cell, shortened
from dpforest.errors import ParameterError

PREDICTION, PROBABILITY = "prediction", "probability_"


@takes_format
def predict(
    model: Model,
    table: Annotated[str, typer.Argument(help=f"{TABLE}, with the features of the model.")],
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
    raw_text: RawText = False,
    *,
    read_as: ReadAs,
) -> None:
    """Write a prediction for each row of a table: in its order, or with ids of the rows.

    Example: [bold]dpforest predict adult.dpf new.csv --out predictions.csv[/bold]
    """
    from dpforest.estimators import load_model
    from dpforest.records.doors import is_database, shown_address
    from dpforest.records.people import Ids
    from dpforest.records.source import Asked

    if not is_database(out):
        check_ending(Path(out), "Predictions are written", ".csv", ".parquet")
        check_writable(out, model, table)
    ids = id or []
    _check_ids(ids, is_database(table) or is_database(out))
    forest = load_model(model)
    forest.n_jobs = -1
    with steps("Predicting") as progress, _written_to(out, len(ids), raw_text) as write:
        reader = opened(table, read_as(forest.schema_.format), names_lines=True)
        as_before, n_rows, known = Ids(), 0, set[str]()
        for part in reader.parts(Asked(forest.schema_, besides=ids), progress):
            write(_beside(as_before(part.besides), _predicted(forest, part.features)))
            n_rows += len(part.features)
            known |= {name for name in forest.schema_.features if part.features[name].null_count < len(part.features)}
    say(f"Predictions: {shown_address(out)}")
    if unread := [shortened(name) for name in forest.schema_.features if n_rows and name not in known]:
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


def _beside(ids: Any, predicted: Any) -> Any:
    """Ids and predictions of some rows as one table."""
    import pyarrow as pa

    return pa.Table.from_arrays([*ids.columns, *predicted.columns], schema=pa.schema([*ids.schema, *predicted.schema]))


def _predicted(forest: Any, part: Any) -> Any:
    """The predictions for some rows as a table of Arrow, in the order of the rows."""
    import numpy as np
    import pyarrow as pa

    from dpforest.evaluation import predicted_indices
    from dpforest.show.export.json import valid_text

    if not hasattr(forest, "classes_"):
        return pa.table({PREDICTION: forest.predict(part)})
    shares, classes = forest.predict_proba(part), forest.classes_.tolist()
    # A column of a file holds labels as they are if all are of one plain kind, else as text.
    kinds = {type(label) for label in classes}
    is_plain = len(kinds) == 1 and kinds <= {int, float, bool}
    labels = pa.array(classes if is_plain else [valid_text(str(label)) for label in classes])
    arrays = [labels.take(pa.array(predicted_indices(forest, part, shares))), *map(pa.array, np.ascontiguousarray(shares.T))]
    # As lists: labels may look the same, such as 1 and "1".
    return pa.Table.from_arrays(arrays, [PREDICTION, *(valid_text(f"{PROBABILITY}{label}") for label in classes)])


@contextmanager
def _written_to(out: str, n_ids: int, raw_text: bool) -> Iterator[Callable[[Any], None]]:
    """A function that writes tables of Arrow one after the other, of which the first ``n_ids`` columns are ids.

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
        runs = pc.and_not(pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, PLAIN_NUMBER))
        return pc.if_else(runs, pc.binary_join_element_wise("'", column, ""), column)

    columns = [escape(column) if pa.types.is_string(column.type) else column for column in rows.columns]
    return pa.Table.from_arrays(columns, [*map(cell, rows.column_names)])
