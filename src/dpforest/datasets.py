"""Public benchmark tables with their schemas, for tests and benchmarks.

They are looked for in the folder that the environment variable ``DPFOREST_DATA`` names (``NAME.csv.gz`` with a last column
``target``, and ``NAME.schema.json``); else those that OpenML has are fetched from there once and cached.
"""

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from dpforest.errors import DPForestError
from dpforest.records.doors import read_table
from dpforest.schema import Categorical, Classes, Numeric, Schema

# OpenML's number for each table whose columns are those of a schema that comes with the library.
OPENML = {"adult": 1590}


class NoSuchTable(DPForestError):
    """A benchmark table is neither in ``DPFOREST_DATA`` nor to be had from OpenML."""


def load_dataset(name: str) -> tuple[Any, Any, Schema]:
    """The features, the target and the schema of the benchmark table of that name."""
    folder = os.environ.get("DPFOREST_DATA")
    if folder and (Path(folder) / f"{name}.csv.gz").exists():
        schema = Schema.from_file(Path(folder) / f"{name}.schema.json")
        return *read_table(Path(folder) / f"{name}.csv.gz", schema, with_target=True), schema
    if name in OPENML:
        return _fetch(name)
    raise NoSuchTable(
        f"There is no benchmark table {name!r}. Set DPFOREST_DATA to a folder with {name}.csv.gz and "
        f"{name}.schema.json; from OpenML come: {', '.join(OPENML)}."
    )


def load_survey() -> tuple[Any, Any, Schema]:
    """The features, the target and the schema of a survey about extramarital affairs, which comes with statsmodels.

    It has one row for each of 6,366 women (Fair, 1978).
    """
    try:
        from statsmodels.datasets import fair
    except ImportError:
        raise NoSuchTable("The survey is the table 'fair' of statsmodels: pip install 'dpforest[demo]'.") from None

    # From the survey's codebook, not from its rows.
    schema = Schema(
        features={
            "rate_marriage": Numeric(1, 5, integer=True),
            "age": Numeric(17, 43),
            "yrs_married": Numeric(0, 24),
            "children": Numeric(0, 6),
            "religious": Numeric(1, 4, integer=True),
            "educ": Numeric(8, 20),
            "occupation": Categorical([1, 2, 3, 4, 5, 6]),
            "occupation_husb": Categorical([1, 2, 3, 4, 5, 6]),
        },
        target=Classes(["no", "yes"], name="affair"),
        one_row_per_person=True,
    )
    data = fair.load_pandas().data
    return data[list(schema.features)], data["affairs"].gt(0).map({True: "yes", False: "no"}), schema


def _fetch(name: str) -> tuple[Any, Any, Schema]:
    """The features, the target and the schema of a table that OpenML has."""
    from sklearn.datasets import fetch_openml

    schema = Schema.from_file(str(files("dpforest") / "schema" / f"{name}.schema.json"))
    try:
        bunch = fetch_openml(data_id=OPENML[name], as_frame=True)
    except (OSError, ValueError, ImportError) as error:
        raise NoSuchTable(
            f"The benchmark table {name!r} could not be fetched from OpenML ({type(error).__name__}). "
            "Set DPFOREST_DATA to a folder that has it."
        ) from None
    return bunch.data[list(schema.features)], bunch.target.astype(str), schema
