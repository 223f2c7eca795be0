"""Long texts of Stata (strL), which stand in a part of their own of a file. Sees rows.

They are read here, since pyreadstat takes them for UTF-8, whatever the file says, and stops at one that is none.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

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
    """Where the long texts of a file are: the places of references to them in a row, and of each by its reference."""

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
