"""Sealed values: exact aggregates to compute with, opened by the gate alone."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from dpforest.errors import SealedError

T = TypeVar("T")
S = TypeVar("S")


class Sealed(Generic[T]):
    """An exact aggregate that can be transformed but not read; ``Gate`` alone opens it.

    Guards against accidents, not against malice: a function given to ``map`` could still leak
    what it sees. The caller is assumed to be honest but curious; that the library itself gives ``map``
    nothing that keeps what it sees is tested on its sources.
    """

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def map(self, function: Callable[[T], S]) -> "Sealed[S]":
        """The sealed result of ``function`` on the value."""
        return Sealed(function(self._value))

    @staticmethod
    def concatenate(parts: "Sequence[Sealed[np.ndarray]]") -> "Sealed[np.ndarray]":
        """One sealed array, of sealed arrays joined along their first axis."""
        return parts[0] if len(parts) == 1 else Sealed(np.concatenate([part._value for part in parts]))

    def __repr__(self) -> str:
        return "Sealed(...)"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise SealedError

    __array__ = __iter__ = __len__ = __bool__ = __getitem__ = __float__ = __int__ = __index__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
