"""Lists of the frequent values of categorical columns, bought before anything is encoded. Sees sealed counts."""

import math
from collections.abc import Callable

from dpforest.errors import ParameterError
from dpforest.privacy.amounts import divide, divide_evenly, exact, round_down
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import SealedTable
from dpforest.schema import Schema
from dpforest.schema.domain import MOST_LISTED, can_list

# The share of a fit's amount, by its unit, and of its delta that buy all its lists together. A tenth of rho is worth a
# twentieth of epsilon; it matters where values are many, and elsewhere the trees do not miss it.
SHARES, DELTA_SHARE = {"rho": 0.1, "epsilon": 0.05}, 0.1
# Below this delta there is no threshold, once columns have had their shares; see ``mechanisms.thresholds``.
LEAST_DELTA = 1e-200
PURPOSE = "list of values"
INSTEAD = "Or list the categories, if they are public, or leave out learn=True: values then fall into buckets."


def threshold_delta(delta: float, pure: bool) -> float:
    """The part of delta that lists take: all of it if the other releases are ``pure``, and so have no use for it."""
    return delta if pure else round_down(exact(delta) * exact(DELTA_SHARE))


def check_delta(schema: Schema, epsilon: float, delta: float) -> None:
    """Raise if the schema asks for lists, and delta has nothing to buy them with."""
    if schema.learnt and delta < LEAST_DELTA and not math.isinf(epsilon):
        raise ParameterError(
            f"Column {schema.learnt[0]!r} is declared Categorical(learn=True). To name values that nobody declared has no "
            f"pure-epsilon guarantee, and delta is {delta:g}. Set delta > 0, far below 1 / rows. {INSTEAD}"
        )


def learn_lists(
    vault: SealedTable, amount: float, gate: Gate, progress: Callable[[str], None] = lambda step: None
) -> tuple[dict[str, list[str]], float]:
    """The released list of values for each column that learns one, and the rest of ``amount``.

    A list has the values that occur often enough, the most frequent first; it may be empty.

    Privacy:
        Claim: costs a share of the amount (``SHARES``), and the book's ``threshold_delta``.
        Because: a record has one text or none in each column; amounts and deltas of columns add up
            (``Gate.name_frequent``). How many values are kept, and which of them no list can hold, is decided by what was
            released.
        Assumes: which columns have lists is public; the text of a value follows from that value alone.
    """
    names, share = vault.schema.learnt, SHARES[gate.ledger.unit]
    own, rest = divide(amount, [share, 1 - share])
    delta = divide_evenly(gate.ledger.accountant.threshold_delta, len(names))
    lists = {}
    for name in names:
        found = gate.name_frequent(vault.count_texts(name), divide_evenly(own, len(names)), delta, Purpose(PURPOSE, name))
        lists[name] = [text for text in found if can_list(text)][:MOST_LISTED]
        progress(f"list of {name!r} learnt")
    return lists, rest
