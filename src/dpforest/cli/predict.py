"""dpforest predict: use a saved forest on a table."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from dpforest.cli.console import output, steps


def predict(
    model: Annotated[Path, typer.Argument(help="A model that dpforest fit wrote.")],
    table: Annotated[Path, typer.Argument(help="CSV (also .gz) or Parquet file with the features of the model.")],
    out: Annotated[Path, typer.Option(help="Where to write predictions, .csv or .parquet.")],
) -> None:
    """Write a prediction for each row of a table, in its order.

    Example: [bold]dpforest predict adult.dpf new.csv --out predictions.csv[/bold]
    """
    from dpforest.errors import ParameterError
    from dpforest.estimators import load_model
    from dpforest.files import check_writable, whole_file
    from dpforest.tables import read_parts

    if out.suffix not in (".csv", ".parquet"):
        raise ParameterError(f"Predictions are written to .csv or .parquet, not to {str(out)!r}.")
    check_writable(out)
    forest = load_model(model)
    forest.n_jobs = -1
    with steps("Predicting") as progress, whole_file(out) as file:
        n_rows, writer = 0, None
        for part in read_parts(table, forest.schema_):
            predicted = _predicted(forest, part)
            writer = writer or _writer(file, out, predicted.schema)
            writer.write_table(predicted)
            n_rows += part.num_rows
            progress(f"{n_rows:,} rows")
        if writer is not None:
            writer.close()
    output.print(f"Predictions: {escape(str(out))}", soft_wrap=True)


def _predicted(forest: Any, part: Any) -> Any:
    """Predictions as a table of Arrow, in the order of the rows."""
    import pyarrow as pa

    if not hasattr(forest, "classes_"):
        return pa.table({"prediction": forest.predict(part)})
    shares = forest.predict_proba(part)
    # Labels that are drawn by the votes are the estimator's to draw.
    labels = forest.predict(part) if forest.forest_.draws else forest.classes_[shares.argmax(axis=1)]
    columns = {"prediction": pa.array([_plain(label) for label in labels])}
    return pa.table(columns | {f"probability_{label}": shares[:, place] for place, label in enumerate(forest.classes_)})


def _writer(file: Any, out: Path, schema: Any) -> Any:
    import pyarrow.csv
    import pyarrow.parquet

    return (pyarrow.parquet.ParquetWriter if out.suffix == ".parquet" else pyarrow.csv.CSVWriter)(file, schema)


def _plain(label: object) -> object:
    """A label as Arrow can hold it."""
    plain = label.item() if hasattr(label, "item") else label
    return plain if isinstance(plain, str | int | float | bool) else str(plain)
