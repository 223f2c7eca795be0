"""One audit: all attempts on a subject, on tables made for it, and the verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpforest.audit.lower_bound import LowerBound, lower_bound
from dpforest.audit.replay import Replays, replay_many
from dpforest.audit.report import found_in
from dpforest.audit.subject import Subject
from dpforest.common.work import Step
from dpforest.errors import ParameterError
from dpforest.parts.recipe import Recipe
from dpforest.recipes import is_listed, list_recipes


@dataclass(frozen=True)
class Audit:
    """The results of one audit: what was tried on a subject, and what was found."""

    recipe: str
    variant: str
    epsilon: float
    delta: float
    replays: Replays | None
    bound: LowerBound | None
    own: bool = False  # not a recipe of the catalogue, or not run by the library's own estimators
    fingerprint: str = ""  # of the recipe's parts

    @property
    def kept(self) -> bool:
        """Whether nothing was found. That does not prove the claim; it was only not broken."""
        no_finding = self.replays is None or not self.replays.findings
        return no_finding and (self.bound is None or not self.bound.exceeds)

    @property
    def verdict(self) -> str:
        return "nothing found" if self.kept else "claim broken"

    def to_dict(self) -> dict[str, Any]:
        claim = {name: value for name, value in vars(self).items() if name not in ("replays", "bound")}
        return claim | {
            "replay": None if self.replays is None else self.replays.to_dict(),
            "lower_bound": None if self.bound is None else self.bound.to_dict(),
            "verdict": self.verdict,
        }


def audit(
    subject: Subject, n_pairs: int = 200, n_fits: int = 20_000, progress: Callable[[str], None] = lambda step: None
) -> Audit:
    """Results of ``n_pairs`` replayed cases and of a lower bound on epsilon from ``n_fits`` fits; 0 leaves either out."""
    replays = bound = None
    claim = subject.claim()
    if n_pairs:
        replays = replay_many(
            subject, n_pairs, progress=lambda done: progress(Step(f"replay {done} of {n_pairs}", done, n_pairs, "replays"))
        )
    if n_fits:
        bound = lower_bound(subject, n_fits=n_fits, progress=progress)
    return Audit(replays=replays, bound=bound, **claim)


def subjects(
    recipe: str | Recipe = "all", variant: str = "private", epsilon: float = 1.0, delta: float = 0.0
) -> list[Subject]:
    """The subjects that a command names; ``all`` stands for every recipe, or for both variants."""
    chosen = [row["name"] for row in list_recipes()] if recipe == "all" else [recipe]
    kinds = ("private", "published") if variant == "all" else (variant,)
    named = [Subject(each, kind, epsilon, delta) for kind in kinds for each in chosen]
    # A recipe of your own has no printed form, whatever its name.
    found = [
        each for each in named if each.variant == "private" or (each.parts.has_published_variant and is_listed(each.parts))
    ]
    if not found:
        raise ParameterError(f"Recipe {named[0].name!r} has no published variant; use variant='private'.")
    return found


def audit_recipe(recipe: str | Recipe, n_pairs: int = 200, n_fits: int = 0, **claim: Any) -> Audit:
    """Audit a recipe and raise ``AssertionError`` with every finding; for tests of your own recipes.

    ``claim`` may hold what ``Subject`` takes: epsilon, delta, variant, classifier, regressor.

    Example
    -------
    >>> audit_recipe("jagannathan-2009", n_pairs=5).verdict
    'nothing found'
    """
    found = audit(Subject(recipe, **claim), n_pairs, n_fits)
    if not found.kept:
        raise AssertionError("\n".join([f"The claim of {found.recipe!r} is broken:", *found_in(found.to_dict())]))
    return found
