"""Values as texts and texts as buckets, as expressions over the columns of a table in a database. Sees names and types only.

Every value has the same text and code as in ``records.categories``.
"""

from decimal import Decimal
from typing import Any

import ibis

from dpforest.errors import TableError
from dpforest.records.categories import LEAST_WHOLE, MOST_WHOLE, bucket_finder
from dpforest.records.sql.numbers import real, to_real
from dpforest.schema import LONGEST_TEXT, Categorical, Schema

# Texts whose buckets an engine must know: of one, two, three and four bytes for a character, and none.
KNOWN = ("17", "é", "東京", "😀", "")
# The least float that a whole number of 64 bits with a sign cannot be.
TWO_63 = 2.0**63
# Whole numbers below it have at most 20 digits.
MOST_20_DIGITS = 9e19


@ibis.udf.scalar.builtin
def md5(text: str) -> str:  # type: ignore[empty-body]
    """The engine's own MD5, in hex digits."""


def text_of(column: Any) -> Any:
    """The text of each value; null where it has none, be it missing or "other"."""
    dtype = column.type()
    if dtype.is_string():
        return column.left(LONGEST_TEXT)
    if dtype.is_boolean():
        column = column.cast("int32")
    elif dtype.is_decimal():
        return _text_of_decimal(column)
    return _text_of_float(column.cast("float64")) if dtype.is_floating() else column.cast("string")


def _text_of_float(value: Any) -> Any:
    """The digits of a float that is a whole number of 64 bits, else null.

    Only numbers in range are converted: for others an engine might raise.
    """
    is_signed = (value >= real(-TWO_63)) & (value < real(TWO_63))
    signed = ibis.cases((is_signed, value), else_=real(0.0))
    whole = signed.cast("int64")  # engines differ in how they round, which does not matter: it is no whole number then
    is_large = (value >= real(TWO_63)) & (value < real(2 * TWO_63))  # all such floats are whole
    rest = ibis.cases((is_large, value - real(TWO_63)), else_=real(0.0)).cast("int64").cast("decimal(20, 0)")
    large = rest + ibis.literal(Decimal(1 << 63), "decimal(20, 0)")
    return ibis.cases(
        (is_signed & (whole.cast("float64") == signed), whole.cast("string")),
        (is_large, large.cast("decimal(20, 0)").cast("string")),
        else_=ibis.null("string"),
    )


def _text_of_decimal(value: Any) -> Any:
    """The digits of a decimal that is a whole number of 64 bits, else null.

    It is compared with the limits as a number of 20 digits: to compare others an engine might have to convert the limits.
    """
    is_short = to_real(value).abs() < real(MOST_20_DIGITS)
    nothing = ibis.literal(0).cast(value.type())
    size = ibis.cases((is_short, value), else_=nothing).abs()
    fits = is_short & (size.floor() == size)  # of the size, since a value below 0 might have no type that holds its floor
    whole = ibis.cases((fits, value), else_=nothing).cast("decimal(20, 0)")
    least, most = (ibis.literal(Decimal(end), "decimal(20, 0)") for end in (LEAST_WHOLE, MOST_WHOLE))
    return ibis.cases((fits & (whole >= least) & (whole <= most), whole.cast("string")), else_=ibis.null("string"))


def bucket_of(text: Any, n_buckets: int) -> Any:
    """The bucket of each text, as ``categories.bucket_finder`` finds it."""
    # By the numbers of letters: where a collation is not deterministic, PostgreSQL stops at a search for a letter.
    letters = [md5(text).substr(index, 1).ascii_str() for index in (0, 1)]
    first, second = (letter % 16 + (letter > ord("9")).ifelse(9, 0) for letter in letters)
    return (first * 16 + second) % n_buckets


def check_md5(backend: Any, schema: Schema) -> None:
    """Raise ``TableError`` if a column needs buckets and the engine does not find those of a few known texts."""
    names = [name for name, part in schema.features.items() if isinstance(part, Categorical) and not part.categories]
    if names and not _knows_buckets(backend):
        raise TableError(
            f"Column {names[0]!r} is put into buckets by the MD5 of its UTF-8 text, which {backend.name!r} does not "
            "compute here by a function md5. List the categories in the schema, or fit a table of DuckDB, PostgreSQL or "
            "Spark, a Parquet file, or a table in memory."
        )


def _knows_buckets(backend: Any) -> bool:
    # One number, since an account that may only read cannot make a table of several.
    asked = sum(256**index * bucket_of(ibis.literal(text), 256).cast("int64") for index, text in enumerate(KNOWN))
    try:
        found = int(backend.to_pyarrow(asked).as_py())
    except Exception:  # the engine has no such function
        return False
    return found == sum(256**index * bucket_finder(256)(text) for index, text in enumerate(KNOWN))
