"""Where predictions are written: a file, or a new table in a database; there complete or not at all."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dpforest.cli.options import check_ending


def check_place(out: str, *inputs: str | Path) -> None:
    """Raise unless predictions can be written to a place, by its name, and it is none of the files that are read."""
    from dpforest.common.files import check_writable
    from dpforest.records.tables import is_database

    if not is_database(out):
        check_ending(Path(out), "Predictions are written", ".csv", ".parquet")
        check_writable(out, *inputs)


@contextmanager
def written_to(out: str, n_ids: int, raw_text: bool) -> Iterator[Callable[[Any], None]]:
    """A function that writes tables of Arrow one after the other, of which the first ``n_ids`` columns are ids.

    In a CSV file text that a spreadsheet would run is escaped, unless ``raw_text`` says to keep it.
    """
    from dpforest.common.files import whole_file
    from dpforest.records.tables import is_database

    if is_database(out):
        from dpforest.records.sources.written import new_table

        with new_table(out, n_ids) as write:
            yield write
        return
    # The writer is closed before its file is, however the block ends.
    with whole_file(out) as file, ExitStack() as stack:
        writer: Any = None

        def write_part(rows: Any) -> None:
            nonlocal writer
            rows = _escaped(rows) if out.endswith(".csv") and not raw_text else rows
            writer = writer or stack.enter_context(_writer(file, Path(out), rows.schema))
            writer.write_table(rows)

        yield write_part


def _escaped(rows: Any) -> Any:
    """A table with its names and texts as ``cell`` gives them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from dpforest.common.text import FORMULA, PLAIN_NUMBER, cell

    def escape(column: Any) -> Any:
        runs = pc.and_not(pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, PLAIN_NUMBER))
        return pc.if_else(runs, pc.binary_join_element_wise("'", column, ""), column)

    columns = [escape(column) if pa.types.is_string(column.type) else column for column in rows.columns]
    return pa.Table.from_arrays(columns, [*map(cell, rows.column_names)])


def _writer(file: Any, out: Path, schema: Any) -> Any:
    import pyarrow.csv
    import pyarrow.parquet

    return (pyarrow.parquet.ParquetWriter if out.suffix == ".parquet" else pyarrow.csv.CSVWriter)(file, schema)
