"""How a file writes its cells: separator, encoding, numbers, and words for missing. Public values only.

It is declared, or drafted and then seen by a person, and never found out while rows are read for a fit or a prediction: one
record must not change how others are read.
"""

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from types import MappingProxyType
from typing import Any

from dpforest.errors import SchemaError, shown
from dpforest.schema.kinds import call

# Cells that are missing in every text file: the words that pandas takes for missing unless it is told otherwise.
ALWAYS_MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
DECIMALS = (".", ",")
# What may stand between groups of digits, with other characters that are used for the same.
THOUSANDS = {"": "", ".": ".", ",": ",", " ": " \u00a0\u202f\u2009", "'": "'\u2019", "_": "_"}
# The order of day, month and year in a date, with its parts in the order of ISO 8601; ISO itself is read in any file.
DATES = {"ymd": "", "dmy": r"\3-\2-\1", "mdy": r"\3-\1-\2"}
# A day or month, another one, and a year of four digits, then perhaps a time; between them points, strokes or hyphens.
_DATE = re.compile(r"\s*(\d\d?)[./-](\d\d?)[./-](\d{4})(?=$|[ T])", re.ASCII)
_SHORT = re.compile(r"-(?=\d(?:-|$|[ T]))", re.ASCII)
WIDE = ("utf-8", "utf-16", "utf-16-le", "utf-16-be")
HALF = re.compile("[\ud800-\udfff]")
NO_CHARACTER = "\ufffe"  # in tables of encodings, for a byte that stands for nothing


@dataclass(frozen=True)
class Format:
    """How a text file writes its cells; files that have types of their own need none of it.

    ``missing`` are words that stand for a missing value in any column, beside those that pandas takes for missing;
    ``missing_in`` are words, or numbers such as 999, that do so in one column. A category or label that the schema lists is
    never missing.
    """

    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    missing: tuple[str, ...] = ()
    missing_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dates: str = "ymd"
    __repr__ = call

    def __post_init__(self) -> None:
        mark = self.separator
        if not (isinstance(mark, str) and len(mark) == 1 and mark.isascii()) or mark in '"\r\n\0':
            raise SchemaError(
                f"The separator of cells must be one character such as ',', ';', '|' or a tab, not {shown(mark)}."
            )
        object.__setattr__(self, "encoding", _known_encoding(self.encoding))
        if self.decimal not in DECIMALS:
            raise SchemaError(f"The decimal mark must be '.' or ',', not {shown(self.decimal)}.")
        if not isinstance(self.thousands, str) or self.thousands not in THOUSANDS or self.thousands == self.decimal:
            listed = ", ".join(repr(mark) for mark in THOUSANDS if mark not in ("", self.decimal))
            raise SchemaError(
                f"With the decimal mark {self.decimal!r} the mark of thousands must be one of {listed}, or '' for none, not "
                f"{shown(self.thousands)}."
            )
        if not isinstance(self.dates, str) or self.dates not in DATES:
            raise SchemaError(f"The order of a date must be one of {', '.join(DATES)}, not {shown(self.dates)}.")
        object.__setattr__(self, "missing", _words("missing", self.missing))
        if not isinstance(self.missing_in, Mapping):
            raise SchemaError("The entry 'missing_in' maps names of columns to lists of words or numbers.")
        own = {str(name): _words(f"missing_in.{name}", words) for name, words in self.missing_in.items()}
        object.__setattr__(self, "missing_in", MappingProxyType({name: words for name, words in own.items() if words}))

    def __reduce__(self) -> tuple[Any, ...]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return Format, tuple((values | {"missing_in": dict(self.missing_in)}).values())

    def iso_date(self, text: str) -> str:
        """A date in the order of the format as ISO 8601 text; any other text unchanged."""
        found = _DATE.match(text) if DATES[self.dates] else None
        if found is None:
            return text
        return _SHORT.sub("-0", found.expand(DATES[self.dates])) + text[found.end() :].rstrip()

    @property
    def in_words(self) -> str:
        """The separator and the encoding, as errors name them."""
        names = {"\t": "tab", " ": "blank"}
        return f"separator {names.get(self.separator, repr(self.separator))}, encoding {self.encoding}"

    def to_dict(self) -> dict[str, Any]:
        """The entries in which the format differs from a plain CSV file, as plain values."""
        plain = Format()
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        content |= {"missing": list(self.missing), "missing_in": {name: list(own) for name, own in self.missing_in.items()}}
        return {name: value for name, value in content.items() if value and value != getattr(plain, name)}

    @classmethod
    def from_dict(cls, content: Any) -> "Format":
        """The format with the entries of a schema file; raises ``SchemaError`` for unknown entries."""
        known = [each.name for each in fields(cls)]
        if not isinstance(content, Mapping) or not set(content) <= set(known):
            raise SchemaError(f"The entry 'format' of a schema file has entries of these names only: {', '.join(known)}.")
        return cls(**content)


def _words(name: str, words: Any) -> tuple[str, ...]:
    """Words for missing as texts, also where numbers were given."""
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise SchemaError(f"The entry {name!r} of a format is a list of words, not {shown(words)}.")
    listed = tuple(words)
    if not all(isinstance(word, str | int | float) and not isinstance(word, bool) for word in listed):
        raise SchemaError(f"The entry {name!r} of a format is a list of words or numbers.")
    if any(isinstance(word, str) and HALF.search(word) for word in listed):
        raise SchemaError(f"The entry {name!r} of a format has half a character, which no text file can hold.")
    return tuple(dict.fromkeys(map(str, listed)))


def _known_encoding(name: Any) -> str:
    """Python's name of an encoding; raises unless each byte is decoded without regard to earlier characters.

    Where it depends on bytes long before it, one record could change how the next are read.
    """
    try:
        found = codecs.lookup(name).name
        # A table with a character for each byte, as of Latin-1 and its relatives. From 128 on bytes may stand for nothing;
        # a decoder cannot pass by one of the others.
        table = getattr(import_module(f"encodings.{found.replace('-', '_')}"), "decoding_table", NO_CHARACTER)
        is_single = NO_CHARACTER not in table[:128]
    except (LookupError, TypeError, ValueError, ImportError):
        found, is_single = "", False
    found = {"utf-8-sig": "utf-8", "ascii": "utf-8", "cp1252": "windows-1252", "iso8859-1": "latin-1"}.get(found, found)
    if found not in WIDE and not is_single:
        raise SchemaError(
            f"The encoding {shown(name)} is not read. Use {', '.join(WIDE)}, or one with a byte for each character, such as "
            "windows-1252 or latin-1; or convert the file to UTF-8."
        )
    return found
