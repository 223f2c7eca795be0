"""Files of SPSS, Stata and SAS: typed columns, some with labels for their values. Sees rows.

Types follow from the head of a file. A column with value labels is text where the schema declares text: its labels, and the
digits of values that have none; it is the codes where the schema declares numbers. Values that the file declares missing are
missing. Dates are counted here: a date that is beyond what Python can hold must not become an error.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpforest.errors import MissingExtraError, TableError
from dpforest.records.columns import asking
from dpforest.records.source import Tell, Typed
from dpforest.records.sources.cells import NO_TEXT, cell_text
from dpforest.records.text import is_number
from dpforest.schema import Date, Schema
from dpforest.schema.grid import FIRST_SECOND, LAST_SECOND

READERS = {
    ".sav": "read_sav", ".zsav": "read_sav", ".por": "read_por", ".dta": "read_dta", ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}  # fmt: skip
PART_ROWS = 1 << 17
# One character for each byte, so that no text of a row fails to be read; texts are decoded here, one by one.
BYTES = "ISO-8859-1"
# How the formats of dates and of points in time begin in each program, with the seconds that their numbers count; and the
# second at which it begins to count, from 1970 on.
DAY = 86_400.0
IN_SPSS = dict.fromkeys(("DATETIME", "YMDHMS", "DATE", "ADATE", "EDATE", "JDATE", "SDATE"), 1.0)
IN_STATA = {"%tc": 1e-3, "%tC": 1e-3, "%td": DAY, "%-td": DAY, "%d": DAY}
IN_SAS = dict.fromkeys(("DATETIME", "E8601DT", "B8601DT"), 1.0) | dict.fromkeys(
    ("DATE", "MMDDYY", "DDMMYY", "YYMMDD", "E8601DA", "B8601DA", "WORDDATE", "WEEKDATE", "JULIAN", "MONYY"), DAY
)
SPSS, STATA, SAS = (-12_219_379_200, IN_SPSS), (-315_619_200, IN_STATA), (-315_619_200, IN_SAS)
CALENDARS = {".sav": SPSS, ".zsav": SPSS, ".por": SPSS, ".dta": STATA, ".sas7bdat": SAS, ".xpt": SAS}
MOMENTS = ("DATETIME", "YMDHMS", "%tc", "%tC", "E8601DT", "B8601DT")
OLD_STATA = 118  # from this release on text is in UTF-8


# The parts of a file by their numbers in its map, and how each begins.
TYPES, NAMES, DATA, TEXTS = 2, 3, 9, 10
BEGIN = {TYPES: b"<variable_types>", NAMES: b"</variable_types>", DATA: b"<data>", TEXTS: b"<strls>"}
# The type of a long text, and the bytes of a value of each type; others are texts of as many bytes.
LONG = 32_768
WIDTHS = {LONG: 8, 65_526: 8, 65_527: 4, 65_528: 4, 65_529: 2, 65_530: 1}
# By the release of the format: the bytes of the number of a column in a reference to a text, and of the row before a text.
REFERENCES = {b"117": (4, 4), b"118": (2, 8), b"119": (3, 8)}


@dataclass(frozen=True)
class LongTexts:
    """Where the long texts of Stata (strL) are: the places of references to them in a row, and of each by its reference.

    They are read here, since pyreadstat takes them for UTF-8, whatever the file says, and stops at one that is none.
    """

    path: Path
    start: int = 0  # of the rows
    width: int = 0  # of a row
    columns: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[bytes, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, names: Sequence[str]) -> "LongTexts":
        """The long texts of a file with columns of these names; there are none in old files, and of other programs."""
        with path.open("rb") as file:
            head, _, places = file.read(1 << 12).partition(b"</header><map>")
            begin, _, rest_of_head = head.partition(b"<release>")
            release, order = rest_of_head[:3], "<" if b"<byteorder>LSF" in head else ">"
            if begin != b"<stata_dta><header>" or release not in REFERENCES:
                return cls(path)
            part = dict(enumerate(struct.unpack(f"{order}14Q", places[: 14 * 8])))
            start = {number: part[number] + len(word) for number, word in BEGIN.items()}
            file.seek(start[TYPES])
            types = struct.unpack(f"{order}{len(names)}H", file.read(2 * len(names)))
            ends = np.cumsum([WIDTHS.get(kind, kind) for kind in types]).tolist()
            columns = {name: end - 8 for name, kind, end in zip(names, types, ends, strict=True) if kind == LONG}
            texts: dict[bytes, tuple[int, int]] = {}
            n_column, n_row = REFERENCES[release]
            file.seek(start[TEXTS])
            while columns and file.read(3) == b"GSO":
                column, row, _, size = struct.unpack(f"{order}4s{n_row}scI", file.read(4 + n_row + 5))
                cut = slice(n_column) if order == "<" else slice(4 - n_column, None)
                rest = slice(8 - n_column) if order == "<" else slice(n_row - 8 + n_column, None)
                texts[column[cut] + row[rest]] = (file.tell(), size)
                file.seek(size, 1)
        return cls(path, start[DATA], ends[-1], columns, texts)

    def column(self, name: str, first: int, n_rows: int) -> list[str]:
        """Texts of some rows, each byte as a character, up to a byte 0; a reference to none stands for an empty one."""
        with self.path.open("rb") as file:
            file.seek(self.start + first * self.width)
            rows = np.frombuffer(file.read(n_rows * self.width), np.uint8).reshape(-1, self.width)
            found = []
            for own in np.ascontiguousarray(rows[:, self.columns[name] :][:, :8]):
                place, size = self.texts.get(own.tobytes(), (0, 0))
                file.seek(place)
                found.append(file.read(size).partition(b"\0")[0].decode("latin-1"))
        return found


class Statistics(Typed):
    """The source of a file of SPSS, Stata or SAS."""

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, str(path)

    def types(self, schema: Schema | None = None) -> pa.Schema:
        """Text, dates, whole or other numbers, by the head of the file; labelled columns as the schema declares them.

        Without a schema a labelled column is text, unless SPSS says that it measures a scale.
        """
        return pa.schema([(name, self._type(name, schema)) for name in self._head.column_names])

    def batches(self, types: pa.Schema, tell: Tell) -> Iterator[pa.Table]:
        names = {self._raw(name): name for name in types.names}
        n_rows, n_done = self._head.number_rows, 0
        long = {raw: name for raw, name in names.items() if name in self._long.columns}
        short = [raw for raw in names if raw not in long]
        while True:
            found = self._read(row_offset=n_done, row_limit=PART_ROWS, usecols=short, **self._as_bytes)[0] if short else {}
            with self._damaged():
                n_left = min(PART_ROWS, (n_rows or 0) - n_done)
                found |= {raw: self._long.column(name, n_done, n_left) for raw, name in long.items()}
            columns = {name: self._column(found[raw], types.field(name)) for raw, name in names.items()}
            n_read = len(next(iter(columns.values())))
            if n_read:
                yield pa.table(columns).select(types.names)
            n_done += n_read
            tell(n_done / n_rows if n_rows else 0)
            if n_read < PART_ROWS:
                return

    @cached_property
    def _head(self) -> Any:
        return self._read(metadataonly=True)[1]

    @cached_property
    def _long(self) -> LongTexts:
        with self._damaged():
            return LongTexts.of(self.path, self._head.column_names)

    @contextmanager
    def _damaged(self) -> Iterator[None]:
        """Turn whatever a reader raises into a ``TableError``: its own message could quote a value."""
        try:
            yield
        except Exception:
            kind = self.path.suffix.lower()
            raise TableError(f"{self.path} cannot be read as a file of the kind {kind}: it is damaged.") from None

    def _read(self, **settings: Any) -> tuple[dict[str, Any], Any]:
        try:
            import pyreadstat
        except ImportError:
            raise MissingExtraError("A file of SPSS, Stata or SAS", "stats") from None
        if not self.path.is_file():
            raise TableError(f"There is no file {self.path}.")
        read: Callable[..., Any] = getattr(pyreadstat, READERS[self.path.suffix.lower()])
        with self._damaged():
            return read(str(self.path), output_format="dict", disable_datetime_conversion=True, **settings)

    def _type(self, name: str, schema: Schema | None) -> pa.DataType:
        if self._head.readstat_variable_types[name] == "string":
            return pa.large_string()  # some rows may hold more than 2 GiB
        if self._is_labelled(name, schema):
            return pa.string()
        unit, is_moment = self._unit(name)
        if unit is not None:
            return pa.timestamp("s") if is_moment else pa.date32()
        return pa.int64() if self._head.readstat_variable_types[name].startswith("int") else pa.float64()

    def _is_labelled(self, name: str, schema: Schema | None) -> bool:
        if not self._head.variable_value_labels.get(name):
            return False
        if schema is None:
            return self._head.variable_measure.get(name) != "scale"
        part = schema.target if name == schema.target.name else schema.features.get(name)
        return part is not None and not isinstance(part, Date) and not is_number(part)

    def _unit(self, name: str) -> tuple[float | None, bool]:
        """The seconds that a number of a column of dates counts, None if it has none; and whether it has a time of day."""
        form = self._head.original_variable_types.get(name) or ""
        _, formats = CALENDARS[self.path.suffix.lower()]
        begins = next((each for each in formats if form.startswith(each)), None)
        return (None if begins is None else formats[begins]), begins in MOMENTS

    def _column(self, values: list[Any], field: pa.Field) -> pa.Array:
        if self._head.readstat_variable_types[field.name] == "string":
            return self._texts(values, field.name)
        numbers = np.asarray(values).astype(np.float64)
        if pa.types.is_string(field.type):
            return self._labels(numbers, field.name)
        if pa.types.is_temporal(field.type):
            return self._dates(numbers, field)
        return pa.array(numbers, from_pandas=True).cast(field.type, safe=False)

    def _texts(self, values: list[Any], name: str) -> pa.Array:
        """Texts, or their labels; ``NO_TEXT`` where bytes are no text of the file's encoding."""
        labels = self._head.variable_value_labels.get(name, {})
        coded = pa.array(values, pa.large_string()).dictionary_encode()

        def read(raw: str) -> bytes:
            text = raw.encode("latin-1").decode(self._encoding) if self._as_bytes else raw
            return labels.get(text, text).encode()

        words = pa.array(map(asking(read, NO_TEXT), coded.dictionary.to_pylist()), pa.large_binary())
        return words.view(pa.large_string()).take(coded.indices)

    def _labels(self, numbers: np.ndarray, name: str) -> pa.Array:
        labels = self._head.variable_value_labels[name]
        values, inverse = np.unique(numbers, return_inverse=True)
        words = [None if value != value else labels.get(value) or cell_text(value) for value in values.tolist()]
        texts = pa.array([word.encode() if isinstance(word, str) else word for word in words], pa.binary()).view(pa.string())
        return texts.take(pa.array(inverse.reshape(-1)))

    @np.errstate(all="ignore")
    def _dates(self, numbers: np.ndarray, field: pa.Field) -> pa.Array:
        (start, _), (unit, _) = CALENDARS[self.path.suffix.lower()], self._unit(field.name)
        assert unit is not None
        seconds = np.clip(np.floor(numbers * unit) + start, FIRST_SECOND, LAST_SECOND)
        missing = np.isnan(seconds)
        moments = pa.array(np.where(missing, 0, seconds).astype(np.int64), pa.timestamp("s"), mask=missing)
        return moments.cast(field.type, safe=False)

    @property
    def _as_bytes(self) -> dict[str, str]:
        # A portable file of SPSS names its characters in a table of its own, and has no encoding.
        return {} if self.path.suffix.lower() == ".por" else {"encoding": BYTES}

    @cached_property
    def _encoding(self) -> str:
        if self.path.suffix.lower() == ".dta":
            with self.path.open("rb") as file:
                begin = file.read(64)
            release = begin.partition(b"<release>")[2][:3]
            return "utf-8" if release.isdigit() and int(release) >= OLD_STATA else "windows-1252"
        return self._head.file_encoding or "utf-8"

    def _raw(self, name: str) -> str:
        """A name as it is found where each byte is read as a character."""
        return name.encode(self._encoding).decode("latin-1") if self._as_bytes else name
