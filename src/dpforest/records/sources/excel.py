"""Sheets of workbooks, row by row, whose cells become text. Sees rows.

A cell concerns its own record only, so those of .xlsx are read here: an error is missing whatever it is called, a date
beyond the calendar is its number, and what is no number where one is declared is its text. A row without a value is no
record.
"""

import codecs
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pyarrow as pa

from dpforest.errors import DPForestError, MissingExtraError, TableError
from dpforest.records.source import Tell, each_once
from dpforest.records.sources.cells import TextTable, cell_text

XLSX = (".xlsx", ".xlsm")
WORKBOOKS = (*XLSX, ".xlsb", ".xls", ".ods")
PART_ROWS = 1 << 14


# What cells stand for whose format need not be declared, by its number; all others of these are numbers.
KNOWN = dict.fromkeys(map(str, (*range(14, 23), *range(27, 37), 45, 47, *range(50, 59))), "date") | {"46": "duration"}
# In a declared format: what is shown as it stands, parts that count hours or so on beyond a day, and other brackets.
SHOWN = re.compile(r'"[^"]*"|\\.|_.|\*.')
COUNTING = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
BRACKETS = re.compile(r"\[[^\]]*\]")
PART_OF_DATE = re.compile("[dmyhs]", re.IGNORECASE)
# The first day of the two calendars of Excel; one of them has a day, number 60, that never was.
START, START_1904, NO_DAY = datetime(1899, 12, 30), datetime(1904, 1, 1), 60
DAY_MS, DAY = 86_400_000, timedelta(days=1)
ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
LETTERS = re.compile("[A-Z]{1,3}")
MOST_DIGITS = 10  # of a place in a list
# Characters that XML does not allow, and references to characters by their numbers, of which it allows some.
NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|&#(?:x(?P<hex>[0-9a-fA-F]{1,40})|(?P<digits>[0-9]{1,40}));")
LONGEST_REFERENCE = 48

Row = dict[int, Any]  # the values of a row that has any, by the places of their columns
Sheets = dict[str, Callable[[], Iterator[Row]]]  # the rows of each sheet, by its name


@contextmanager
def _opened_xlsx(path: Path) -> Iterator[Sheets]:
    with zipfile.ZipFile(path) as archive:
        ((_, book),) = [each for each in _related(archive, "").values() if each[0] == "officeDocument"]
        related = _related(archive, book)
        places: dict[str, str] = dict(related.values())
        sheets: dict[str, str] = {}
        settings: dict[str, str] = {}
        for element in _parsed(archive, book).iter():
            if _name(element) == "sheet":
                kind, place = related[next(value for key, value in element.items() if key.endswith("}id"))]
                sheets |= {str(element.get("name")): place} if kind == "worksheet" else {}
            elif _name(element) == "workbookPr":
                settings = dict(element.items())
        xlsx = Xlsx(
            archive,
            _shared_texts(archive, places["sharedStrings"]) if "sharedStrings" in places else [],
            _kinds(_parsed(archive, places["styles"])) if "styles" in places else [],
            settings.get("date1904") in ("1", "true"),
        )
        yield {name: partial(xlsx.rows, place) for name, place in sheets.items()}


@dataclass(frozen=True)
class Xlsx:
    """An open workbook, with what all of its sheets share."""

    archive: zipfile.ZipFile
    texts: list[str]
    kinds: list[str]  # of each style of cells: "number", "date" or "duration"
    since_1904: bool

    def rows(self, file: str) -> Iterator[Row]:
        """The rows of the sheet in a file of the archive."""
        with _entry(self.archive, file) as stream:
            for element in _each(stream, "row"):
                row: Row = {}
                place = -1
                for cell in element:
                    letters = LETTERS.match(cell.get("r", ""))
                    place = _place(letters[0]) if letters else place + 1
                    value = self._read(cell)
                    if value not in (None, ""):
                        row[place] = value
                if row:
                    yield row

    def _read(self, cell: Element) -> Any:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return next((_text(part) for part in cell if _name(part) == "is"), None)
        raw = next((part.text for part in cell if part.tag.endswith("v") and _name(part) == "v"), None)
        if raw is None or kind == "e":
            return None
        if kind == "s":
            return _at(self.texts, raw)
        if kind == "b":
            return raw == "1"
        if kind != "n":
            return _unescaped(raw)
        try:
            number = float(raw)
        except ValueError:
            return raw
        shown_as = _at(self.kinds, cell.get("s", ""))
        if shown_as == "duration":
            return timedelta()  # which has no text
        return self._moment(number) if shown_as == "date" else number

    def _moment(self, number: float) -> datetime | time | float:
        """The point in time, or time of day, that a number stands for; the number if the calendar does not reach so far."""
        try:
            passed = timedelta(milliseconds=round(number * DAY_MS))
            if 0 <= number < 1:
                return (datetime.min + passed).time()
            start = START_1904 if self.since_1904 else START + DAY if number < NO_DAY else START
            return start + passed if number > 0 else number
        except (OverflowError, ValueError):
            return number


def _at(values: list[str], index: str) -> str | None:
    """The value at a place that stands in a cell; None if there is no such place."""
    is_there = index.isdecimal() and len(index) <= MOST_DIGITS and int(index) < len(values)
    return values[int(index)] if is_there else None


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _entry(archive: zipfile.ZipFile, place: str) -> Any:
    """A file of the archive; programs differ in how they write its name."""
    names = {name.replace("\\", "/").lower(): name for name in archive.namelist()}
    return archive.open(names[place.lower()])


def _parsed(archive: zipfile.ZipFile, place: str) -> Element:
    with _entry(archive, place) as stream:
        return ElementTree.parse(_Allowed(stream)).getroot()


def _related(archive: zipfile.ZipFile, place: str) -> dict[str, tuple[str, str]]:
    """The kind and the place of each related file, by its id in this one."""
    folder, name = posixpath.split(place)
    found = {}
    for element in _parsed(archive, posixpath.join(folder, "_rels", f"{name}.rels")):
        target = posixpath.normpath(posixpath.join("/", folder, element.get("Target", ""))).lstrip("/")
        found[element.get("Id", "")] = (element.get("Type", "").rpartition("/")[2], target)
    return found


def _each(stream: Any, name: str) -> Iterator[Element]:
    """The elements of a name, one after the other; what each holds is forgotten when the next one is asked for."""
    for _, element in ElementTree.iterparse(_Allowed(stream)):
        if element.tag.endswith(name) and _name(element) == name:
            yield element
            element.clear()


class _Allowed:
    """A stream of XML with a sign in the place of what XML does not allow and some programs write all the same."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._held = stream, ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, n_bytes: int = -1, /) -> bytes:
        given, block = "", b"begin"
        while block and not given:
            block = self._stream.read(n_bytes)
            text = self._held + self._decoder.decode(block, final=not block)
            # A reference that the end of a block cuts waits for the next one.
            cut = text.rfind("&", max(len(text) - LONGEST_REFERENCE, 0)) if block else -1
            given, self._held = (text, "") if cut < 0 else (text[:cut], text[cut:])
        return NO_XML.sub(_allowed, given).encode()


def _allowed(found: re.Match[str]) -> str:
    code = int(found["hex"], 16) if found["hex"] else int(found["digits"]) if found["digits"] else 0
    is_allowed = code in (9, 10, 13) or 32 <= code < 0xD800 or 0xDFFF < code < 0xFFFE or 0xFFFF < code < 0x110000
    return found[0] if is_allowed else "\ufffd"


def _shared_texts(archive: zipfile.ZipFile, place: str) -> list[str]:
    with _entry(archive, place) as stream:
        return [_text(element) for element in _each(stream, "si")]


def _text(element: Element) -> str:
    """A text of one piece or of several; how to pronounce it is left out."""
    pieces = [part for run in element if _name(run) in ("t", "r") for part in (run if _name(run) == "r" else [run])]
    return _unescaped("".join(part.text or "" for part in pieces if _name(part) == "t"))


def _unescaped(text: str) -> str:
    """A text with its escaped characters (``_x000D_``) restored."""
    return ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def _kinds(styles: Element) -> list[str]:
    """What the numbers of cells of each style stand for."""
    declared = {each.get("numFmtId"): each.get("formatCode", "") for each in styles.iter() if _name(each) == "numFmt"}
    used = [xf.get("numFmtId", "0") for each in styles if _name(each) == "cellXfs" for xf in each]
    return [_kind(declared[number]) if number in declared else KNOWN.get(number, "number") for number in used]


def _kind(code: str) -> str:
    first = SHOWN.sub("", code).partition(";")[0]
    if COUNTING.search(first):
        return "duration"
    return "date" if PART_OF_DATE.search(BRACKETS.sub("", first)) else "number"


def _place(letters: str) -> int:
    """The place of a column: A is 0, Z is 25, AA is 26."""
    place = 0
    for letter in letters:
        place = 26 * place + ord(letter) - ord("A") + 1
    return place - 1


@contextmanager
def _opened_other(path: Path) -> Iterator[Sheets]:
    """The sheets of a workbook of another kind than .xlsx."""
    try:
        import python_calamine as calamine
    except ImportError:
        raise MissingExtraError(f"A workbook of the kind {path.suffix}", "excel") from None

    def rows(name: str) -> Iterator[Row]:
        for cells in workbook.get_sheet_by_name(name).iter_rows():
            row = {place: cell for place, cell in enumerate(cells) if cell not in (None, "")}
            if row:
                yield row

    with calamine.load_workbook(path) as workbook:
        yield {name: partial(rows, name) for name in workbook.sheet_names}


@dataclass(frozen=True)
class Workbook(TextTable):
    """The cells of a sheet, the first one if none is named. Its first row has the names; columns without one are not read.

    Cells with an error, such as #N/A, are missing, and a row without any value is no record.
    """

    sheet: str | None = None

    def names(self) -> list[str]:
        with self._opened() as (_, rows):
            return list(self._places(rows))

    def hint(self) -> str:
        with self._opened() as (name, _):
            return f"The sheet {name!r} was read; another one is named as {self.path}::SHEET."

    def batches(self, wanted: list[str], tell: Tell) -> Iterator[pa.RecordBatch]:
        with self._opened() as (_, rows):
            places = self._places(rows)
            while part := list(islice(rows, PART_ROWS)):
                yield self._batch(part, {name: places[name] for name in wanted})

    def _places(self, rows: Iterator[Row]) -> dict[str, int]:
        """The place of each column that has a name, by its name, from the first row."""
        first: Row = next(rows, {})
        names = {place: (cell_text(cell) or b"").decode("utf-8", "replace").strip() for place, cell in first.items()}
        each_once([name for name in names.values() if name], self.path)
        return {name: place for place, name in sorted(names.items()) if name}

    @contextmanager
    def _opened(self) -> Iterator[tuple[str, Iterator[Row]]]:
        """The name of the sheet that is read, and its rows."""
        if not self.path.is_file():
            raise TableError(f"There is no file {self.path}.")
        try:
            with (_opened_xlsx if self.path.suffix.lower() in XLSX else _opened_other)(self.path) as sheets:
                name = self.sheet if self.sheet is not None else next(iter(sheets))
                if name not in sheets:
                    raise TableError(f"{self.path} has no sheet {name!r}; it has {', '.join(map(repr, sheets))}.")
                yield name, sheets[name]()
        except DPForestError:
            raise
        # Errors of several libraries, whose own messages could quote a cell; what panics in Rust is no ``Exception``.
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise TableError(f"{self.path} cannot be read as a workbook: it is damaged, or needs a password.") from None
