"""A private search as what is audited: whole searches, of which an attacker sees the best model, candidate and score."""

from dataclasses import dataclass
from typing import Any

from dpforest.audit.pairs import Pair
from dpforest.audit.subject import Subject
from dpforest.schema import Categorical, Classes, Schema
from dpforest.search import DPSearchCV

# Nearly all records score, and few train: so the one record moves the scores of all runs at once.
HELD_OUT = 0.99
# Most records are of one class, so the best runs are those that predict it, and the record is a miss of all of them.
RACE = Pair(
    "one more miss",
    "a record that all runs miss lowers every score: the best of several tells of it, if each of them had all of epsilon",
    Schema({"a": Categorical([0, 1])}, Classes([0, 1]), n_rows=25),
    (*[(0, 0)] * 20, *[(0, 1)] * 5),
    (0, 1),
    n_trees=1,
    max_depth=1,
)


@dataclass(frozen=True)
class SearchSubject(Subject):
    """A search among candidates that claims (epsilon, delta)-DP; ``recipe`` is that of candidates that name none.

    Give it to ``lower_bound`` with the pair ``RACE``, or with pairs of your own. ``search`` is the class that runs it.
    """

    recipe: Any = "jagannathan-2009"
    space: Any = None
    mean_runs: float = 3.0
    held_out: float = HELD_OUT
    search: type[Any] = DPSearchCV

    def estimator(self, schema: Schema, n_trees: int | None = None, max_depth: int | None = None) -> Any:
        """A new search for a table of that schema."""
        forest = super().estimator(schema, n_trees, max_depth)
        shared = {"epsilon": self.epsilon, "mean_runs": self.mean_runs, "held_out": self.held_out}
        return self.search(forest, self.space or {"recipe": [self.recipe]}, **shared)
