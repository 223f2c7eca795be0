"""dpforest predict: use a saved forest on a table."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.console import say, steps
from dpforest.cli.options import Model, check_ending


def predict(
    model: Model,
    table: Annotated[Path, typer.Argument(help="CSV (also .gz) or Parquet file with the features of the model.")],
    out: Annotated[Path, typer.Option(help="Where to write predictions, .csv or .parquet.")],
) -> None:
    """Write a prediction for each row of a table, in its order.

    Example: [bold]dpforest predict adult.dpf new.csv --out predictions.csv[/bold]
    """
    from dpforest.common.files import check_writable, whole_file
    from dpforest.estimators import load_model
    from dpforest.records.tables import read_parts

    check_ending(out, "Predictions are written", ".csv", ".parquet")
    check_writable(out, model, table)
    forest = load_model(model)
    forest.n_jobs = -1
    # The writer is closed before its file is, however the block ends.
    with steps("Predicting") as progress, whole_file(out) as file, ExitStack() as stack:
        writer = None
        for part, _ in read_parts(table, forest.schema_, progress=progress):
            predicted = _predicted(forest, part)
            writer = writer or stack.enter_context(_writer(file, out, predicted.schema))
            writer.write_table(predicted)
    say(f"Predictions: {out}")


def _predicted(forest: Any, part: Any) -> Any:
    """The predictions for some rows as a table of Arrow, in the order of the rows."""
    import numpy as np
    import pyarrow as pa

    from dpforest.evaluation import predicted_indices

    if not hasattr(forest, "classes_"):
        return pa.table({"prediction": forest.predict(part)})
    shares, classes = forest.predict_proba(part), forest.classes_.tolist()
    labels = pa.array(_written(classes)).take(pa.array(predicted_indices(forest, part, shares)))
    arrays = [labels, *map(pa.array, np.ascontiguousarray(shares.T))]
    # As lists: labels may look the same, such as 1 and "1".
    return pa.Table.from_arrays(arrays, ["prediction", *(f"probability_{label}" for label in classes)])


def _writer(file: Any, out: Path, schema: Any) -> Any:
    import pyarrow.csv
    import pyarrow.parquet

    return (pyarrow.parquet.ParquetWriter if out.suffix == ".parquet" else pyarrow.csv.CSVWriter)(file, schema)


def _written(labels: list[Any]) -> list[Any]:
    """Labels as a column of a file can hold them: as they are if they are of one plain kind, else as text."""
    kinds = {type(label) for label in labels}
    return labels if len(kinds) == 1 and kinds <= {str, int, float, bool} else [str(label) for label in labels]
