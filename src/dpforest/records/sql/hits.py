"""Queries for what a released forest predicts for records in a database, and how often that is right. Sees their sums."""

import math

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.privacy.sealed import Sealed
from dpforest.records.scoring import place_within
from dpforest.records.sql.errors import is_right
from dpforest.records.sql.expressions import cases, cast, clip, entry, real
from dpforest.records.sql.placed import Placed
from dpforest.records.sql.session import Relation, Session
from dpforest.records.sql.vault import NO_DRAWS
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Bounded, Target

SUM_BITS = 60  # of summed votes, which a whole number of 64 bits with a sign holds


def count_hits(table: Relation, session: Session, forest: Forest, target: Target) -> Sealed[np.ndarray]:
    """Sealed sums ``(1, 2)`` of hits and misses of a forest on encoded records; as ``tally_hits``, with its sensitivity.

    Votes are added up in whole steps. So answers are those of ``tally_hits``, but for records whose votes of classes tie
    to within a part in 2**50, or whose error is as near to the middle between two steps.

    Privacy:
        Claim: L1 sensitivity is 1 (classes) or S = ``TARGET_STEPS`` (bounded), and L2**2 at most its square.
        Because: the query sums over records a number e that follows from the record alone, and is 0 or 1, or clipped to
            0 .. S. Misses are that sum; hits are the number of records, times S for a bounded target, less that sum. So an
            added record adds 1-e or S-e to one and e to the other. No sum passes 64 bits, so no record can cause an error.
        Assumes: the forest does not depend on these records; ``table`` has each of them once.
    """
    if forest.draws:
        raise ParameterError(NO_DRAWS)
    summed, sums = _summed_votes(Placed(table, session, forest.domain), forest)
    if isinstance(target, Bounded):
        missed, most = _missed(sums, forest, target), TARGET_STEPS
    else:
        missed, most = cases((is_right(sums), "0"), otherwise="1"), 1
    query = f"SELECT CAST(COALESCE(SUM({missed}), 0) AS BIGINT) AS missed, COUNT(*) AS n FROM {summed.name}"
    found = session.fetch(query, summed)
    return Sealed(np.stack([most * found["n"] - found["missed"], found["missed"]], axis=1))


def _summed_votes(placed: Placed, forest: Forest) -> tuple[Relation, list[str]]:
    """The table of the records with the summed votes for each class, in steps; and the names of these columns."""
    votes = in_steps(forest)
    sums = [f"s{value}" for value in range(votes.shape[1])]
    placed.change(dict.fromkeys(sums, cast("0", "BIGINT")))
    # One tree after the other: queries about several are so long that engines take longer to read them.
    for number in range(forest.n_trees):
        walked = placed.walked(forest.only(np.arange(forest.n_trees) == number))
        leaf, own = walked.node(0), votes[forest.trees == number]
        walked.change({name: f"{name} + {entry(leaf, column.tolist())}" for name, column in zip(sums, own.T, strict=True)})
        placed.session.drop(placed.table)
        placed = walked
    return placed.table, sums


def _scale(forest: Forest) -> int:
    """The logarithm to the base 2 of how many steps a vote of 1 has: as many as let no sum of votes pass SUM_BITS bits."""
    return SUM_BITS - math.frexp(max(forest.n_trees * float(np.abs(forest.votes).max()), 1.0))[1]


def in_steps(forest: Forest) -> np.ndarray:
    """The votes of leaves in whole steps ``(n_nodes, n_values)``, and 0 for other nodes, where no record ends."""
    votes = np.rint(np.ldexp(forest.votes, _scale(forest))).astype(np.int64)
    return np.where(forest.is_leaf[:, None], votes, 0)


def _missed(sums: list[str], forest: Forest, target: Bounded) -> str:
    """An expression for how many of ``TARGET_STEPS`` steps a prediction misses a bounded target by."""
    low, high = (clip(name, 0, 1 << _scale(forest)) if forest.link == "sum" else name for name in sums)
    share = f"{_double(high)} / {_double(f'NULLIF({low} + {high}, 0)')}"
    start, width = place_within(target, forest.target)
    off = f"ABS({real(start)} + {real(width)} * ({share}) - {_double('fine')} / {real(FINE_STEPS)})"
    # Both engines round halves to even numbers, as numpy does.
    return cast(f"{real(TARGET_STEPS)} * LEAST(GREATEST({off}, {real(0)}), {real(1)})", "BIGINT")


def _double(value: str) -> str:
    return cast(value, "DOUBLE PRECISION")
