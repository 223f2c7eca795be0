"""The base class of all parts of a recipe: what each part declares about itself. Sees public values only."""

import inspect
from typing import Any, ClassVar, Protocol

from dpforest.schema import Bounded, Classes, Target


class Part(Protocol):
    """Base of all kinds of parts, with the defaults of what a part declares about itself.

    A class attribute of a part must be declared by its kind or here: a flag that is misspelt is an error, not a default.
    """

    targets: ClassVar[tuple[type, ...]] = (Classes, Bounded)  # the kinds of target that the part can be used with

    @property
    def needs_rows(self) -> bool:
        """Whether the part needs the number of rows, declared or released, before trees grow."""
        return False

    def accepts(self, target: Target) -> bool:
        """Whether the part can be used with this target."""
        return isinstance(target, self.targets)

    def check(self, recipe: Any) -> None:
        """Raise unless the other parts of the recipe are those that the part's proof assumes."""
        return

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        own = inspect.get_annotations(cls)
        if Protocol in cls.__bases__:
            return  # a kind of part, which declares
        known = {name for base in cls.__mro__[1:] for name in (*vars(base), *inspect.get_annotations(base))}
        for name, value in vars(cls).items():
            is_field = name in own and "ClassVar" not in str(own[name])
            is_code = callable(value) or hasattr(value, "__get__")
            if not (name.startswith("_") or name in known or is_field or is_code):
                raise TypeError(f"{cls.__name__}.{name} is not declared by the kind of part; is the name misspelt?")
