"""Sheets of workbooks, whose cells become text. Sees rows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from dpforest.errors import DPForestError, MissingExtraError, TableError
from dpforest.records.source import Tell, each_once, lacking_column
from dpforest.records.sources.cell_text import cell_text, text_column
from dpforest.records.sources.xlsx import Row, Xlsx
from dpforest.schema import Format

XLSX = (".xlsx", ".xlsm")
WORKBOOKS = (*XLSX, ".xlsb", ".xls", ".ods")
PART_ROWS = 1 << 14


@dataclass(frozen=True)
class Workbook:
    """The cells of a sheet, the first one if none is named. Its first row has the names; columns without one are not read.

    Cells with an error, such as #N/A, are missing, and a row without any value is no record.
    """

    path: Path
    sheet: str | None
    format: Format
    has_names: ClassVar[bool] = True

    def names(self) -> list[str]:
        with self._opened() as sheet:
            return each_once(list(self._places(sheet)), self.path)

    def lacks(self, wanted: list[str]) -> str | None:
        lacking = lacking_column(wanted, self.names(), self.path)
        return None if lacking is None else f"{lacking} {self.hint()}"

    def hint(self) -> str:
        with self._opened() as sheet:
            return f"The sheet {sheet.name!r} was read; another one is named as {self.path}::SHEET."

    def batches(self, wanted: list[str], tell: Tell) -> Iterator[pa.RecordBatch]:
        with self._opened() as sheet:
            places, rows = self._places(sheet), sheet.rows()
            next(rows, None)
            while part := list(islice(rows, PART_ROWS)):
                cells = ([row.get(places[name]) for row in part] for name in wanted)
                columns = [text_column(column, self.format.decimal) for column in cells]
                yield pa.RecordBatch.from_arrays(columns, wanted)

    def _places(self, sheet: "_Sheet") -> dict[str, int]:
        """The place of each column that has a name, by its name."""
        first: Row = next(sheet.rows(), {})
        names = {place: (cell_text(cell) or b"").decode("utf-8", "replace").strip() for place, cell in first.items()}
        each_once([name for name in names.values() if name], self.path)
        return {name: place for place, name in sorted(names.items()) if name}

    @contextmanager
    def _opened(self) -> Iterator["_Sheet"]:
        if not self.path.is_file():
            raise TableError(f"There is no file {self.path}.")
        try:
            with (Xlsx.opened if self.path.suffix.lower() in XLSX else _Other.opened)(self.path) as book:
                sheets = list(book.sheets)
                name = self.sheet if self.sheet is not None else sheets[0]
                if name not in sheets:
                    raise TableError(f"{self.path} has no sheet {name!r}; it has {', '.join(map(repr, sheets))}.")
                yield _Sheet(name, partial(book.rows, name))
        except DPForestError:
            raise
        # Errors of several libraries, whose own messages could quote a cell; what panics in Rust is no ``Exception``.
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise TableError(f"{self.path} cannot be read as a workbook: it is damaged, or needs a password.") from None


@dataclass(frozen=True)
class _Sheet:
    name: str
    rows: Callable[[], Iterator[Row]]


@dataclass(frozen=True)
class _Other:
    """An open workbook of another kind than .xlsx; its sheets by name."""

    sheets: dict[str, Any]

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator["_Other"]:
        try:
            import python_calamine as calamine
        except ImportError:
            raise MissingExtraError(f"A workbook of the kind {path.suffix}", "excel") from None
        with calamine.load_workbook(path) as workbook:
            yield cls({name: partial(workbook.get_sheet_by_name, name) for name in workbook.sheet_names})

    def rows(self, name: str) -> Iterator[Row]:
        """The values of each row that has any, by the places of their columns."""
        for cells in self.sheets[name]().iter_rows():
            row = {place: cell for place, cell in enumerate(cells) if cell not in (None, "")}
            if row:
                yield row
