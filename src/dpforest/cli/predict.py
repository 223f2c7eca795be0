"""dpforest predict: use a saved forest on a table."""

import io
from pathlib import Path
from typing import Annotated

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
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from dpforest.errors import ParameterError
    from dpforest.estimators import DPForestClassifier, load_model
    from dpforest.files import check_writable, write_whole
    from dpforest.tables import read_table

    if out.suffix not in (".csv", ".parquet"):
        raise ParameterError(f"Predictions are written to .csv or .parquet, not to {str(out)!r}.")
    check_writable(out)
    forest = load_model(model)
    with steps("Predicting"):
        X, _ = read_table(table, forest.schema_, with_target=False)
        columns: dict[str, object] = {}
        if isinstance(forest, DPForestClassifier):
            shares = forest.predict_proba(X)
            best = shares.argmax(axis=1)
            columns["prediction"] = [_plain(forest.classes_[place]) for place in best]
            for place, label in enumerate(forest.classes_):
                columns[f"probability_{label}"] = shares[:, place]
        else:
            columns["prediction"] = forest.predict(X)
        buffer = io.BytesIO()
        written = pa.table(columns)
        if out.suffix == ".parquet":
            pyarrow.parquet.write_table(written, buffer)
        else:
            pyarrow.csv.write_csv(written, buffer)
        write_whole(out, buffer.getvalue())
    output.print(f"Predictions: {escape(str(out))}", soft_wrap=True)


def _plain(label: object) -> object:
    """A label as Arrow can hold it."""
    plain = label.item() if hasattr(label, "item") else label
    return plain if isinstance(plain, str | int | float | bool) else str(plain)
