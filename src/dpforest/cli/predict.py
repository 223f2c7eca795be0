"""dpforest predict: use a saved forest on a table."""

from typing import Annotated, Any

import typer

from dpforest.cli.console import errors, say, steps
from dpforest.cli.options import TABLE, Model, RawText, ReadAs, opened, takes_format
from dpforest.common.text import shortened

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
            "database have no order, so there one is needed.",
            show_default=False,
        ),
    ] = None,
    raw_text: RawText = False,
    *,
    read_as: ReadAs,
) -> None:
    """Write a prediction for each row of a table: in its order, or with ids of the rows.

    Example: [bold]dpforest predict adult.dpf new.csv --out predictions.csv[/bold]
    """
    from dpforest.cli.outputs import check_place, written_to
    from dpforest.estimators import load_model
    from dpforest.records.ids import Ids
    from dpforest.records.source import Asked
    from dpforest.records.tables import shown_address

    check_place(out, model, table)
    ids = _checked(id or [], table, out)
    forest = load_model(model)
    forest.n_jobs = -1
    with steps("Predicting") as progress, written_to(out, len(ids), raw_text) as write:
        reader = opened(table, read_as(forest.schema_.format), names_lines=True)
        as_before, n_rows, known = Ids(), 0, set[str]()
        for part in reader.parts(Asked(forest.schema_, besides=ids), progress):
            write(_beside(as_before(part.besides), _predicted(forest, part.features)))
            n_rows += len(part.features)
            known |= {name for name in forest.schema_.features if part.features[name].null_count < len(part.features)}
    say(f"Predictions: {shown_address(out)}")
    if unread := [name for name in forest.schema_.features if n_rows and name not in known]:
        columns = ", ".join(map(shortened, unread))
        say(
            f"Nothing could be read in {columns}, so it counts as missing. 'dpforest schema check --table' says more.",
            errors,
        )


def _checked(ids: list[str], table: str, out: str) -> list[str]:
    """The columns of ids; raises unless each is named once, and none as a column of predictions is."""
    from dpforest.errors import ParameterError
    from dpforest.records.tables import is_database

    if not ids and (is_database(table) or is_database(out)):
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
    return ids


def _beside(ids: Any, predicted: Any) -> Any:
    """Ids and predictions of some rows as one table."""
    import pyarrow as pa

    return pa.Table.from_arrays([*ids.columns, *predicted.columns], schema=pa.schema([*ids.schema, *predicted.schema]))


def _predicted(forest: Any, part: Any) -> Any:
    """The predictions for some rows as a table of Arrow, in the order of the rows."""
    import numpy as np
    import pyarrow as pa

    from dpforest.evaluation import predicted_indices
    from dpforest.show.export.listed import valid_text

    if not hasattr(forest, "classes_"):
        return pa.table({PREDICTION: forest.predict(part)})
    shares, classes = forest.predict_proba(part), forest.classes_.tolist()
    labels = pa.array(_written(classes)).take(pa.array(predicted_indices(forest, part, shares)))
    arrays = [labels, *map(pa.array, np.ascontiguousarray(shares.T))]
    # As lists: labels may look the same, such as 1 and "1".
    return pa.Table.from_arrays(arrays, [PREDICTION, *(valid_text(f"{PROBABILITY}{label}") for label in classes)])


def _written(labels: list[Any]) -> list[Any]:
    """Labels as a column of a file can hold them: as they are if they are of one plain kind, else as text."""
    from dpforest.show.export.listed import valid_text

    kinds = {type(label) for label in labels}
    is_plain = len(kinds) == 1 and kinds <= {int, float, bool}
    return labels if is_plain else [valid_text(str(label)) for label in labels]
