"""Values as texts and texts as buckets, as expressions over the columns of a table in a database. Sees names and types only.

Every value has the same text and code as in ``records.categories``.
"""

from decimal import Decimal
from typing import Any

import ibis

from dpforest.errors import TableError
from dpforest.records.categories import LEAST_WHOLE, MOST_WHOLE, bucket_finder
from dpforest.records.sql.coins import md5
from dpforest.records.sql.lookups import real
from dpforest.schema import Categorical, Schema

HEX = "0123456789abcdef"
# Texts whose buckets an engine must know: of one, two, three and four bytes for a character, and none.
KNOWN = ("17", "é", "東京", "😀", "")
# The least float that a whole number of 64 bits with a sign cannot be.
TWO_63 = 2.0**63


def text_of(column: Any) -> Any:
    """The text of each value; null where it has none, be it missing or "other"."""
    dtype = column.type()
    if dtype.is_string():
        return column
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
    least, most = (ibis.literal(Decimal(end), "decimal(20, 0)") for end in (LEAST_WHOLE, MOST_WHOLE))
    is_within = (value >= least) & (value <= most)
    inside = ibis.cases((is_within, value), else_=ibis.literal(0).cast(value.type()))
    whole = inside.cast("decimal(20, 0)")
    return ibis.cases((is_within & (whole == inside), whole.cast("string")), else_=ibis.null("string"))


def bucket_of(text: Any, n_buckets: int) -> Any:
    """The bucket of each text, as ``categories.bucket_finder`` finds it."""
    digits = [ibis.literal(HEX).find(md5(text).substr(index, 1)) for index in (0, 1)]
    return (digits[0] * 16 + digits[1]) % n_buckets


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
