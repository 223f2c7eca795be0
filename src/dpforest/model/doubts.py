"""What looks odd in a released forest: signs that schema and table do not fit. Public values only.

A fit may not say that no label matched, for that would tell rows apart. What it released anyway may be looked at freely: a
doubt is a function of released values, so it costs nothing.
"""

import numpy as np

from dpforest.common.text import count_words
from dpforest.forest.bands import STANDS_OUT
from dpforest.forest.tree import Estimate, Forest
from dpforest.privacy import composition
from dpforest.privacy.ledger import Ledger
from dpforest.schema import Bounded, Categorical, Date, Schema
from dpforest.schema.domain import Domain

# Where a table of this many rows would not stand out of the noise, that it does not stand out says nothing about labels.
ORDINARY_ROWS = 1000
# What is less than this part of what it should be is next to nothing.
NEXT_TO_NOTHING = 0.1
# Rows times strength of the choice of a target's location below which it may well be a bad one.
LEAST_SIGNAL = 24
CHECK = "'dpforest schema check --table' shows it to the holder of the table."


def released_doubts(forest: Forest, schema: Schema, ledger: Ledger) -> list[str]:
    """Sentences about what looks odd in a released forest, for a warning and the report."""
    return [*_few_records(forest, schema, ledger), *uncertain_range(forest, schema, ledger), *_idle_columns(forest)]


def uncertain_range(forest: Forest, schema: Schema, ledger: Ledger) -> list[str]:
    """A sentence in a list if a bound of the target is missing and the budget was too small to find where its values lie."""
    target = schema.target
    if not isinstance(target, Bounded) or target.has_bounds:
        return []
    n_rows = schema.n_rows if schema.n_rows is not None else 0.0 if forest.n_records is None else forest.n_records.value
    n_rows *= float(ledger.sample_share)
    charges = [entry for book in ledger.books for _, entry in composition.entries(book.root)]
    known = [charge.mechanism.parameters for charge in charges if charge.label == "location of the target"]
    if all(n_rows * each["rate"] * each["width"] >= LEAST_SIGNAL for each in known if "rate" in each):
        return []
    return [
        f"The budget is too small for this number of rows to find where the target {target.name!r} lies, so predictions may "
        "be far off. Declare bounds of the target that are known without the table, raise epsilon, or use more rows."
    ]


def too_small_to_tell(forest: Forest) -> bool:
    """Whether the number of records was measured, but even an ordinary table would be lost in its noise."""
    measured = forest.n_records
    return measured is not None and STANDS_OUT * measured.deviation > max(measured.value, ORDINARY_ROWS)


def measured_words(measured: Estimate) -> str:
    """The number of records that a fit measured, as a sentence."""
    return f"The fit measured {count_words(measured.value, measured.band, 'records with a known target')}."


def _few_records(forest: Forest, schema: Schema, ledger: Ledger) -> list[str]:
    why = f"Labels of the schema and of the table may differ (blanks, case, 0 against '0'). {CHECK}"
    measured, held = forest.n_records, _held(forest)
    if measured is not None and not too_small_to_tell(forest) and all(map(_may_be_none, (measured, held))):
        return [f"{measured_words(measured)} If the table has more, the model has learnt next to nothing. {why}"]
    if schema.n_rows is None or held is None:
        return []
    if held.value + STANDS_OUT * held.deviation >= NEXT_TO_NOTHING * schema.n_rows * ledger.sample_share:
        return []
    words = count_words(held.value, held.band, "records")
    return [f"The schema declares {schema.n_rows:,} rows, but the trees hold {words}. {why}"]


def _held(forest: Forest) -> Estimate | None:
    """The number of records in all trees together, an upper bound of the table's; None without counts."""
    if not forest.variances.any() or forest.n_earlier:  # whose counts are of other records
        return None
    return Estimate(max(float(forest.held.sizes[0]), 0.0), float(forest.held.size_deviations[0]))


def _may_be_none(estimate: Estimate | None) -> bool:
    return estimate is None or estimate.value <= estimate.band


def _idle_columns(forest: Forest) -> list[str]:
    """Sentences on columns of mostly missing or unknown values, by the splits of roots."""
    found = []
    roots = np.flatnonzero(~forest.is_leaf[: forest.n_trees])
    for feature in np.unique(forest.features[roots]).tolist():
        nodes = roots[forest.features[roots] == feature]
        for words, codes in _empty_codes(forest.domain, feature):
            if _holds_nearly_all(forest, nodes, codes):
                column = forest.domain.column_names[forest.domain.columns[feature]]
                found.append(f"Column {column!r}: nearly all values are {words}. {CHECK}")
                break
    return list(dict.fromkeys(found))  # of a date several features may say the same


def _holds_nearly_all(forest: Forest, nodes: np.ndarray, codes: list[int]) -> bool:
    """Whether nearly all records of some nodes are in children that only these codes of a feature lead to."""
    if not forest.variances[nodes].any():  # nothing was counted with noise, so nothing stands out of it
        return False
    sizes, variances = np.zeros(2), np.zeros(2)  # beside, within
    for node in nodes.tolist():
        routes = forest.route(node)
        children = forest.first_children[node] + np.arange(int(routes.max()) + 1)
        within, others = np.ones(len(children), dtype=bool), np.ones(len(routes), dtype=bool)
        others[codes] = False
        within[routes[others]] = False
        if not within.any():  # all records of this root are beside, so it cannot be nearly all
            return False
        sizes += np.bincount(within, forest.bands.sizes[children], 2)
        variances += np.bincount(within, forest.bands.size_variances[children], 2)
    noise = STANDS_OUT * np.sqrt(variances)
    beside = max(float(sizes[0]), 0) + float(noise[0])
    return bool(variances.any() and sizes[1] > noise[1] and beside < NEXT_TO_NOTHING * sizes[1])


def _empty_codes(domain: Domain, feature: int) -> list[tuple[str, list[int]]]:
    """The codes of a feature that stand for no known value, in groups, each with what it means in words."""
    last = int(domain.n_codes[feature]) - 1
    if isinstance(domain.features[feature], Date) or domain.derived[feature].of != "value":
        return [("missing, or no dates", [last])]
    if not isinstance(domain.features[feature], Categorical):
        return [("missing, or no numbers", [last])]
    return [
        ("missing", [last]),
        ("none of the categories of the schema", [last - 1]),
        ("missing or unknown", [last - 1, last]),
    ]
