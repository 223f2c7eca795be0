"""The released model that a fit starts from: how it is given, what must agree, what is said of it. Public values only."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dpforest.common.text import counted, shortened
from dpforest.errors import ParameterError, SchemaError, shown
from dpforest.forest.tree import Forest
from dpforest.growing.earlier import additive
from dpforest.model.file import model_digest, read_model
from dpforest.privacy.statement import Before, Statement
from dpforest.schema import Bounded, Schema

SAME = "New trees follow the earlier ones on the same codes, so both need the same columns and target. Nothing was spent."


@dataclass(frozen=True)
class Earlier:
    """The released model at the start of a fit: its forest, whose votes add up, schema and statement."""

    forest: Forest
    schema: Schema
    privacy: Statement
    trained_on: str | None
    digest: str | None

    @classmethod
    def of(cls, given: Any) -> "Earlier | None":
        """What a parameter ``earlier_model`` stands for: None, a fitted model, or the path of a model file."""
        if given is None:
            return None
        if isinstance(given, str | os.PathLike):
            header, forest = read_model(given)  # type: ignore[arg-type]  # a path of any kind
            schema, privacy, digest = header["schema"], header["privacy"], header["digest"]
            return cls(additive(forest), schema, privacy, header.get("trained_on"), digest)
        model = getattr(given, "estimator", given)  # what scikit-learn's FrozenEstimator holds
        if not hasattr(model, "get_params") or not hasattr(model, "made_with_"):
            raise ParameterError(
                f"earlier_model must be a fitted model of dpforest or the path of its file, not {shown(given)}. Copies that "
                "scikit-learn makes for a search are not fitted: give the path, or FrozenEstimator(model)."
            )
        return cls(additive(model.forest_), model.schema_, model.privacy_, model.trained_on_, model_digest(model))

    def agreed(self, schema: Schema) -> Schema:
        """The schema with its columns in the order of the earlier one; raises where the two say something else."""
        own = self.schema
        if (missing := [*own.features.keys() - schema.features.keys()]) or schema.features.keys() - own.features.keys():
            there = "here not" if missing else "only here"
            name = sorted(missing or schema.features.keys() - own.features.keys())[0]
            raise SchemaError(f"The earlier model has other columns: {name!r} is {there}. {SAME}")
        parts = {f"column {name!r}": (part, schema.features[name]) for name, part in own.features.items()}
        for what, (then, now) in {**parts, "the target": (own.target, schema.target)}.items():
            if then != now:
                words = [shortened(repr(part)) for part in (then, now)]
                raise SchemaError(f"In the earlier model {what} is {words[0]}, and in this schema {words[1]}. {SAME}")
        return replace(schema, features={name: schema.features[name] for name in own.features})

    @property
    def broken(self) -> list[str]:
        """Why nothing is promised of the earlier model, as a reason in a list; empty if its guarantee holds."""
        if self.privacy.holds:
            return []
        return [f"the earlier model that it starts from has no guarantee ({'; '.join(self.privacy.reasons)})"]

    def notes(self, forest: Forest, epsilon: float, unit: str) -> Iterator[str]:
        """Sentences of the statement of a fit from this model, which released ``forest``."""
        if forest.n_earlier:
            of_target = ", and its range of the target," if isinstance(forest.target, Bounded) else ""
            yield (
                f"the first {counted(forest.n_earlier, 'tree')} are those of the earlier model, which a private choice "
                f"found worth keeping; its cuts and its lists of values{of_target} are used again"
            )
        else:
            yield "a private choice found the earlier model no help on these records, so that all trees are new"
        yield from (f"{caution} (said of the earlier model)" for caution in self.privacy.cautions)
        if self.broken:
            yield f"a {unit} that is in the table of this fit alone loses at most epsilon = {epsilon:.4g} all the same"

    def stated(self) -> tuple[Before, ...]:
        """What the statement of a later fit says of this model, and of those before it, the oldest first."""
        own = self.privacy
        said = own.epsilon, own.delta, own.unit, own.holds, own.recipe, self.trained_on, self.digest, own.row_epsilon
        return (*own.earlier, Before(*said))
