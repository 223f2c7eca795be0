"""Values as JSON can hold them, for everything that is printed or written for programs. Public values only.

Infinity is the text "inf" (which ``float`` reads), and NaN is null. Model files do not use this: they refuse values that
could not be read back as they were.
"""

import json
import math
from dataclasses import asdict, is_dataclass
from typing import Any


def jsonable(value: Any) -> Any:
    """The value made of dictionaries, lists, text, finite numbers, truth values and None; anything else becomes text."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return jsonable(asdict(value))
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def to_json(value: Any, **style: Any) -> str:
    """The value as JSON text; ``style`` are options of ``json.dumps``."""
    return json.dumps(jsonable(value), allow_nan=False, **style)


def unboxed(value: Any) -> Any:
    """A scalar of numpy, or of a library like it, as a value of Python; anything else as it is."""
    return value.item() if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0 else value
