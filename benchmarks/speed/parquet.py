"""A table that is larger than memory should hold: written in row groups, to be trained on where it is."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.speed.cases import SEED
from benchmarks.speed.systems import draw_table

GROUP_ROWS = 1_000_000


def write(path: str | Path, n_rows: int, n_features: int, group_rows: int = GROUP_ROWS) -> None:
    """Write features ``x0``, ``x1``, … in 32 bits and the target ``y``; each million rows have a seed of their own."""
    writer = None
    try:
        for group, start in enumerate(range(0, n_rows, GROUP_ROWS)):
            X, y = draw_table(min(GROUP_ROWS, n_rows - start), n_features, [SEED, group])
            table = pa.table({f"x{index}": column for index, column in enumerate(X.T)} | {"y": y})
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table, row_group_size=group_rows)
    finally:
        if writer is not None:
            writer.close()
