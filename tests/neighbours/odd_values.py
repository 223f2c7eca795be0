"""Values that one record may bring to a column, whatever it is declared to hold."""

import datetime
from collections import deque
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
from tests.records.holders import objects

NAN, INF = float("nan"), float("inf")
SECRET = "walrus-secret-value"


class NoError(BaseException):
    """What ``except Exception`` does not catch."""


def hostile(base, error, *methods):
    """A class whose instances raise when they are asked, with the record in the message."""

    def refuse(self, *_):
        raise error(SECRET)

    return type("Hostile", (base,), dict.fromkeys(methods, refuse))


def equal_to_all(base, value):
    """An instance of a class that says that it equals everything, from the same drawer of a dictionary as ``value``."""
    kind = type("Equal", (base,), {"__eq__": lambda self, other: True, "__hash__": lambda self: hash(value)})
    return kind(value) if base is not object else kind()


COMPARED = ("__eq__", "__ne__", "__lt__", "__gt__", "__bool__")
SHOWN = ("__repr__", "__str__", "__format__", "__len__", "__iter__", "__getitem__")
READ = ("__float__", "__int__", "__index__", "__complex__", "__array__", "__hash__")


class NoClass:
    @property
    def __class__(self):
        raise ValueError(SECRET)


class NoAnswer:
    """Equality that gives something which is neither true nor false."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return np.array([True, False])


class NoHashOfItsClass(type):
    __hash__ = hostile(object, ValueError, "__hash__").__hash__


def signalling(dtype, bits):
    """A NaN at which processors raise a flag."""
    return np.frombuffer(bits.tobytes(), dtype=dtype)


class NoZone(datetime.tzinfo):
    """A time zone that raises when it is asked."""

    def utcoffset(self, moment):
        raise NoError(SECRET)


HOSTILE = {
    "time in no zone": datetime.datetime(2020, 1, 1, tzinfo=NoZone()),
    "date that raises": hostile(datetime.date, ValueError, *COMPARED, *READ, "toordinal")(2020, 1, 1),
    "time that raises": hostile(datetime.datetime, ValueError, *COMPARED, *READ, "date", "time", "utcoffset")(2020, 1, 1),
    "raises when compared": hostile(object, ValueError, *COMPARED)(),
    "raises when read": hostile(object, ValueError, *READ)(),
    "raises always": hostile(object, ValueError, *COMPARED, *SHOWN, *READ)(),
    "raises what is no error": hostile(object, NoError, *COMPARED, *SHOWN, *READ)(),
    "raises an overflow": hostile(object, OverflowError, *COMPARED, *SHOWN, *READ)(),
    "text that raises": hostile(str, ValueError, *COMPARED, *READ)("a"),
    "float that raises": hostile(float, ValueError, *COMPARED, *READ)(1.0),
    "huge number that raises": hostile(int, ValueError, *COMPARED, "__hash__")(10**400),
    "numpy number that raises": hostile(np.float64, ValueError, *COMPARED, *READ)(1.0),
    "list that raises": hostile(list, ValueError, *COMPARED, *SHOWN, *READ)([1]),
    "tuple that raises": (hostile(object, ValueError, *COMPARED, *READ)(),),
    "has no class": NoClass(),
    "has no answer": NoAnswer(),
    "class that cannot be hashed": NoHashOfItsClass("Unhashed", (), {})(),
    "equal to all": equal_to_all(object, "a"),
    "text equal to all": equal_to_all(str, "a"),
    "number equal to all": equal_to_all(int, 1),
}
PLAIN = {
    "none": None, "not a number": NAN, "infinite": INF, "infinite below": -INF, "minus zero": -0.0, "smallest": 5e-324,
    "subnormal": -2e-310, "largest": 1.7976931348623157e308, "65 bits": 2**65, "number of 400 digits": 10**400,
    "negative number of 400 digits": -(10**400), "decimal beyond floats": Decimal("1e400"),
    "decimal below floats": Decimal("1e-400"), "decimal that is no number": Decimal("NaN"),
    "decimal that signals": Decimal("sNaN"), "fraction beyond floats": Fraction(-(10**400)),
    "fraction below floats": Fraction(1, 10**400), "complex": 1 + 2j, "complex of numpy": np.complex128(1j),
    "long double": np.longdouble("1e4000"), "half": np.float16(65504), "whole number of numpy": np.uint64(2**64 - 1),
    "text of numpy": np.str_("a"), "truth of numpy": np.True_, "truth": True, "text": SECRET, "no text": "",
    "number as text": "1", "huge number as text": "1e400", "long text": "a" * 100_000, "long number": "9" * 5000,
    "text with a null": "a\0", "text of one surrogate": "\ud800", "bytes": b"a", "bytes that are no text": b"\xff\xfe",
    "array of bytes": bytearray(b"a"), "list": ["a"], "nested lists": [[["a"], 1], []], "tuple": ("a",),
    "tuple that cannot be hashed": ("a", []), "set": {"a"}, "frozen set": frozenset("a"), "deque": deque("a"),
    "dictionary": {"a": 1}, "array of one": np.array([1.0]), "array of none": np.array([]),
    "array without dimensions": np.array("a", dtype=object), "table": pd.DataFrame({"a": [1]}),
    "column": pd.Series([1.0]), "missing of pandas": pd.NA, "missing time": pd.NaT,
    "missing time of numpy": np.datetime64("NaT"), "time": pd.Timestamp("2020-01-01"),
    "time of numpy": np.datetime64("2020-01-01"), "date": datetime.date(2020, 1, 1), "date as text": "2020-01-31",
    "date beyond the calendar": np.datetime64(2**62, "s"),
    "time beyond UTC": datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=23))),
    "duration": datetime.timedelta(1), "id": UUID(int=7), "class": int, "function": len, "object": object(),
}  # fmt: skip
OBJECTS = PLAIN | HOSTILE
# What holds values of any kind.
HOLDERS = {
    "list": list,
    "tuple": tuple,
    "deque": deque,
    "numpy objects": objects,
    "pandas objects": lambda values: pd.Series(objects(values), dtype=object),
    "polars objects": lambda values: pl.Series(values, dtype=pl.Object),
}
