"""The schema: what is public about a table before anyone looks at it. Public values only."""

from dpforest.schema.format import ALWAYS_MISSING, Format
from dpforest.schema.kinds import (
    BUCKETS,
    FINE_STEPS,
    LONGEST_TEXT,
    MOST_NUMBER,
    SECONDS_OF_DAY,
    TARGET_STEPS,
    Bounded,
    Categorical,
    Classes,
    Date,
    Feature,
    Numeric,
    Target,
)
from dpforest.schema.schema import MOST_FILE_BYTES, UNFILLED, Schema, read_schema_file, toml_tables, toml_value, unfilled

__all__ = [
    "ALWAYS_MISSING", "BUCKETS", "FINE_STEPS", "LONGEST_TEXT", "MOST_FILE_BYTES", "MOST_NUMBER", "SECONDS_OF_DAY",
    "TARGET_STEPS", "UNFILLED", "Bounded", "Categorical", "Classes", "Date", "Feature", "Format", "Numeric", "Schema",
    "Target", "read_schema_file", "toml_tables", "toml_value", "unfilled",
]  # fmt: skip
