"""Small tables that engines may read differently, and an easy one. Each has a feature that names its records."""

from functools import cache

import numpy as np
import pyarrow as pa
from tests.conformance.conformance import NAME

from dpforest.schema import Bounded, Categorical, Classes, Date, Numeric, Schema

CITIES = ("Oslo", "it's", 'a"b', "", "NaN", "null", "ÅÅ", "oslo")  # all listed but the last two
UNUSUAL = (np.nan, None, np.inf, -np.inf, 0.0, -0.0, 0.5, -1.0, 1.0, 0.25, 1e300, -1e300, 5e-324, np.nextafter(0.5, 0))
# Whole and other numbers at the ends of what has a text: 17.0 has that of 17, 3.5 none.
PARCELS = (17.0, -0.0, 3.5, np.nan, np.inf, -np.inf, 2.0**53, -(2.0**63), 2.0**63, 2.0**64 - 2048, 2.0**64, 1e300, 5e-324)
TARGETS = {
    "two classes": Classes(["no", "yes"], name="y"),
    "two classes, others no": Classes(["no", "yes"], other="no", name="y"),
    "four classes": Classes([3, 1, 2, 9], name="y"),  # 9 never occurs
    "bounded": Bounded(-2, 5, name="y"),
}
TURNS = (
    "0001-01-01T00:00:01", "1899-12-31", "1900-03-01", "1970-01-01", "2000-02-29", "2024-01-01", "2024-02-29T13:00",
    "2024-03-01", "2024-03-04", "2100-01-01", "9999-12-31T23:59:59",
)  # fmt: skip
SIZES = {"mixed": 47, "one row": 1, "empty": 0, "all left out": 5}


def features(n_rows):
    names = [f"r{index}" for index in range(max(n_rows, 1))]
    return {
        "x": Numeric(-1, 1),
        NAME: Categorical(names),
        "single": Numeric(0, 3),
        "whole": Numeric(0, 9, integer=True),
        "crowded": Numeric(0, 1e6),
        "city": Categorical(CITIES[:-2]),
        "size": Categorical([1, 2, 3]),
        "flag": Categorical([True, False]),
        "town": Categorical(),
        "parcel": Categorical(),
    }


@cache
def nasty(size, kind):
    """A table and its schema, by the names of both."""
    n_rows, target = SIZES[size], TARGETS[kind]
    rng = np.random.default_rng(n_rows)
    columns = {
        "x": pa.array([UNUSUAL[index % len(UNUSUAL)] for index in range(n_rows)], pa.float64(), from_pandas=False),
        NAME: pa.array([f"r{index}" for index in range(n_rows)], pa.string()),
        "single": pa.array(rng.choice([0.1, 0.7, 3.0, 2.90625, np.nan], n_rows), pa.float32(), from_pandas=False),
        "whole": pa.array(_some_missing(rng.integers(-2, 12, n_rows).tolist(), rng), pa.int64()),
        "crowded": pa.array(_some_missing((10 ** rng.uniform(-3, 7, n_rows)).tolist(), rng), pa.float64()),
        "city": pa.array(_some_missing(rng.choice(CITIES, n_rows).tolist(), rng), pa.string()),
        "size": pa.array(_some_missing(rng.integers(0, 5, n_rows).tolist(), rng), pa.int32()),
        "flag": pa.array(_some_missing((rng.random(n_rows) < 0.5).tolist(), rng), pa.bool_()),
        "town": pa.array(_some_missing(rng.choice([*CITIES, "17", "東京", "😀"], n_rows).tolist(), rng), pa.string()),
        "parcel": pa.array(_some_missing(rng.choice(PARCELS, n_rows).tolist(), rng), pa.float64(), from_pandas=False),
        "y": _labels(size, target, n_rows, rng),
    }
    return pa.table(columns), Schema(features(n_rows), target)


@cache
def dated(n_rows):
    """A table of dates and points in time with and without zones, and its schema; some are at turns of the calendar."""
    rng = np.random.default_rng(11)
    turns = [np.datetime64(text, "us") for text in TURNS]
    near = [turn + step for turn in turns for step in (-1, 0, 1)]
    far = rng.integers(-62_135_596_800_000_000, 253_402_300_799_999_999, max(n_rows - len(near), 0)).astype("M8[us]")
    moments = [*near, *far][:n_rows]
    columns = {"day": pa.date32(), "clock": pa.timestamp("us"), "instant": pa.timestamp("us", "UTC")}
    parts = {"narrow": Date("2023-12-25", "2024-03-03"), "wide": Date("0001-01-01", "9999-12-31"), "usual": Date()}
    whole = {"hours": Date("2024-02-28T20:00:00", "2024-03-01T03:00:00", time=True), "times": Date(time=True)}
    table, features = {}, {NAME: Categorical([f"r{index}" for index in range(n_rows)])}
    for column, type_ in columns.items():
        for part, feature in (parts if column == "day" else parts | whole).items():
            values = _some_missing([moment.astype("M8[D]") if column == "day" else moment for moment in moments], rng)
            table[f"{column} {part}"] = pa.array([None if value is None else value.item() for value in values], type_)
            features[f"{column} {part}"] = feature
    table |= {NAME: [f"r{index}" for index in range(n_rows)], "y": rng.choice(["no", "yes"], n_rows)}
    return pa.table(table), Schema(features, TARGETS["two classes"])


def _some_missing(values, rng):
    return [None if rng.random() < 0.15 else value for value in values]


def _labels(size, target, n_rows, rng):
    if isinstance(target, Bounded):
        usual = [-2.0, 5.0, np.inf, -np.inf, 7.0, 1.5, 0.123456789]
        drawn = [*rng.uniform(-3, 6, n_rows)[: n_rows // 2], *rng.choice(usual, n_rows - n_rows // 2)]
        values = [None, np.nan, None, np.nan, None] if size == "all left out" else _some_missing(drawn, rng)
        return pa.array(values, pa.float64(), from_pandas=False)
    if target.labels[0] == "no":
        values = ["maybe", None, "NO", "", "no "] if size == "all left out" else rng.choice(["no", "yes", "maybe"], n_rows)
        return pa.array(_some_missing([*values], rng), pa.string())
    values = [0, 4, 5, 6, 7] if size == "all left out" else rng.integers(0, 4, n_rows).tolist()
    return pa.array(_some_missing(values, rng), pa.int64())


@cache
def easy(n_rows, classes=True, named=True):
    """A table that a forest learns, and its schema, which says the number of rows."""
    rng = np.random.default_rng(7)
    x, city = rng.uniform(0, 1, n_rows), rng.choice(["a", "b", "c"], n_rows)
    y = np.where(x > 0.5, 1, 0) if classes else 4 * (x > 0.5) + (city == "a") + rng.uniform(0, 0.1, n_rows)
    columns = {"x": x, "city": city, NAME: [f"r{index}" for index in range(n_rows)]}
    parts = {"x": Numeric(0, 1), "city": Categorical(["a", "b", "c"])}
    parts |= {NAME: Categorical([f"r{index}" for index in range(n_rows)])} if named else {}
    target = Classes([0, 1], name="y") if classes else Bounded(0, 6, name="y")
    return pa.table({name: columns[name] for name in parts} | {"y": y}), Schema(parts, target, n_rows=n_rows)
