"""The schema: what is public about a table before anyone looks at it. Public values only."""

from dpforest.schema.schema import (
    FINE_STEPS,
    MOST_FILE_BYTES,
    TARGET_STEPS,
    UNFILLED,
    Bounded,
    Categorical,
    Classes,
    Feature,
    Numeric,
    Schema,
    Target,
    read_schema_file,
    toml_tables,
    toml_value,
    unfilled,
)

__all__ = [
    "FINE_STEPS",
    "MOST_FILE_BYTES",
    "TARGET_STEPS",
    "UNFILLED",
    "Bounded",
    "Categorical",
    "Classes",
    "Feature",
    "Numeric",
    "Schema",
    "Target",
    "read_schema_file",
    "toml_tables",
    "toml_value",
    "unfilled",
]
