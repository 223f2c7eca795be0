"""Turns a released forest into one SQL query. Released values only.

Layers, from the inside out: values cleaned, their codes, the leaf of each tree, summed votes, weights by the link, shares,
the answer. Each layer is a subquery that names what it finds, so that nothing is written twice. It ends in ``OFFSET 0``:
databases then keep it, instead of repeating its expressions wherever they are used.
"""

import re
from collections.abc import Hashable, Sequence

import numpy as np

from dpforest.common.text import unlike
from dpforest.errors import ParameterError, shown
from dpforest.forest.tree import Forest
from dpforest.schema import LONGEST_TEXT, SECONDS_OF_DAY, Bounded, Categorical, Date
from dpforest.schema.domain import Derived, Domain
from dpforest.schema.grid import FIRST_SECOND, LAST_SECOND
from dpforest.show.export.json import (
    CodeSplit,
    DistinctSplits,
    is_number,
    kind_of,
    met_cuts,
    none_code,
    texts_of,
    valid_text,
)

Cases = tuple[list[tuple[int, str]], int]
ROWS, SCORES = '"dpforest_rows"', '"dpforest_scores"'
_PART = r'(?:[^."\0]+|"(?:[^"\0]|"")+")'
_TABLE = re.compile(rf"{_PART}(?:\.{_PART})*")
# Types of columns, as DuckDB and PostgreSQL name them, whose values as text are their texts.
TEXT_TYPES = (
    "text", "character", "character varying", "varchar", "smallint", "integer", "bigint", "tinyint", "utinyint", "usmallint",
    "uinteger", "ubigint",
)  # fmt: skip
UNSURE = re.compile(r"[\x01-\x1f\x7f\\]")
# Long sums are written as sums of sums of at most so many, so that parsers do not nest too deeply.
MOST_TERMS = 32
# Its exponential is too small to matter, and still large enough for PostgreSQL, which takes underflow as an error.
LOWEST_EXPONENT = -700


def sql_query(forest: Forest, table: str, ids: Sequence[str] = ()) -> str:
    """A query that gives the rows of a table with a ``prediction``, and for classes with a probability of each.

    With ``ids`` it gives these columns of each row instead of all, and orders the rows by them: a table has no order.
    """
    if isinstance(ids, str) or not all(isinstance(name, str) and name for name in ids) or len(set(ids)) < len(ids):
        raise ParameterError("The columns of ids are a list of names, each once.")
    columns = column_names(forest.domain.column_names)
    values = [_clean(feature, columns[feature.column]) for feature in forest.domain.derived]
    codes = [_code(forest.domain, feature) for feature in range(len(values))]
    steps = {"f": values, "c": codes, "t": _leaves(forest), "s": _votes(forest), "w": _weights(forest)}
    layers = [_named(prefix, expressions) for prefix, expressions in steps.items()]
    query = "SELECT " + ", ".join(layers[0])
    names = added_names(forest, ids)
    for layer in [*layers[1:], *_answer(forest, names)]:
        query = f"SELECT {', '.join(layer)}\nFROM (\n{query}\nOFFSET 0) AS layer"
    keys = [f"{ROWS}.{_quoted(valid_text(name))}" for name in ids]
    order = f"\nORDER BY {', '.join(keys)}" if keys else ""
    return (
        f"SELECT {', '.join(keys) or f'{ROWS}.*'}, {SCORES}.*\nFROM {_table_name(table)} AS {ROWS}\n"
        f"CROSS JOIN LATERAL (\n{query}\n) AS {SCORES}{order}"
    )


def column_names(features: tuple[str, ...]) -> list[str]:
    """The name of each feature's column: its own, or ``feature_<index>`` if that is empty, as no column's can be."""
    names = []
    for index, name in enumerate(features):
        name = valid_text(name) or f"feature_{index}"
        while name in names or (not features[index] and name in features):
            name += "_"
        names.append(name)
    return names


def added_names(forest: Forest, ids: Sequence[str] = ()) -> list[str]:
    """The names of the columns that the query adds, unlike those of the schema and ``ids`` in upper and lower case."""
    wanted = ["prediction"]
    if not isinstance(forest.target, Bounded):
        wanted += [f"probability_{text}" for text in texts_of(forest.target.labels)]
    return unlike(wanted, [*column_names(forest.domain.column_names), *ids])


def _table_name(table: str) -> str:
    if not isinstance(table, str) or not _TABLE.fullmatch(table):
        raise ParameterError(
            f"The table must be a name such as people or main.people, not {shown(table)}. "
            'A part that holds a dot or a quote is written in double quotes: main."my.table".'
        )
    parts = re.findall(_PART, table)
    return ".".join(part if part.startswith('"') else _quoted(part) for part in map(valid_text, parts))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _number(value: float) -> str:
    """A double as SQL, to the last digit; with an exponent it is never read as a decimal of few digits."""
    if np.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE PRECISION)"
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _double(expression: str) -> str:
    return f"CAST({expression} AS DOUBLE PRECISION)"


def _literal(value: Hashable, text: str, kind: str) -> str:
    if kind == "boolean":
        return "TRUE" if value else "FALSE"
    if kind == "whole":
        return str(value)
    if kind == "number":
        return _number(float(value))  # type: ignore[arg-type]
    # By number, whatever a setting or another database takes a backslash for, and a program does to ends of lines.
    quoted, n_unsure = UNSURE.subn(lambda found: f"' || CHR({ord(found[0])}) || '", text.replace("'", "''"))
    return f"('{quoted}')" if n_unsure else f"'{quoted}'"


def _named(prefix: str, expressions: Sequence[str]) -> list[str]:
    """The expressions with names: ``t1`` is the leaf in tree 1, the first; all other names have an index from 0."""
    return [f"{expression} AS {prefix}{number}" for number, expression in enumerate(expressions, prefix == "t")]


def _category_kind(categories: Sequence[Hashable]) -> str:
    """The type of column that holds these categories: "boolean", "number" or "text"."""
    if kind_of(categories) == "boolean":
        return "boolean"
    return "number" if is_number(categories) else "text"


def _clean(feature: Derived, column: str) -> str:
    """The expression for the value of a feature, NULL if it is missing."""
    part, value = feature.part, f"{ROWS}.{_quoted(column)}"
    if isinstance(part, Date) or feature.of != "value":
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE {_of_date(feature, value)} END"
    if isinstance(part, Categorical) and part.by_text:
        return _text(value, column)
    kind = _category_kind(part.categories) if isinstance(part, Categorical) else "number"
    if kind == "number":
        return f"NULLIF({_double(value)}, {_double(chr(39) + 'NaN' + chr(39))})"
    return f"CAST({value} AS {'BOOLEAN' if kind == 'boolean' else 'VARCHAR'})"


def _text(value: str, column: str) -> str:
    """The expression for the text of a value of a column of text, whole numbers or truth values; fails for other types.

    To write other numbers out is left to whoever asks: databases do it each in their own way.
    """
    type_, text = f"CAST(pg_typeof({value}) AS VARCHAR)", f"CAST({value} AS VARCHAR)"
    refusal = _literal("", f"Column {column} must be text or whole numbers: cast it", "text")
    # The error depends on the value, else a database might raise it for any type, when it plans the query.
    otherwise = f"CAST(CAST({refusal} || LEFT({text}, 0) AS INTEGER) AS VARCHAR)"
    truth = f"CASE WHEN {text} = 'true' THEN '1' WHEN {text} = 'false' THEN '0' END"
    known = ", ".join(f"'{name}'" for name in TEXT_TYPES)
    return f"CASE WHEN {type_} IN ({known}) THEN {text} WHEN {type_} = 'boolean' THEN {truth} ELSE {otherwise} END"


def _bucket(text: str, n_buckets: int) -> str:
    """The expression for the bucket of a text: a number below 256 in two hex digits, modulo the number of buckets."""
    digits = f"MD5(LEFT({text}, {LONGEST_TEXT}))"
    high, low = (f"(POSITION(SUBSTRING({digits}, {place}, 1) IN '0123456789abcdef') - 1)" for place in (1, 2))
    return f"({high} * 16 + {low}) % {n_buckets}"


def _of_date(feature: Derived, value: str) -> str:
    """The expression for what a feature asks of a date or point in time, whatever the zone of the session is.

    Databases say ``infinity`` for a date beyond all others, and some know no seconds of it. DuckDB has seconds as a double:
    from the year 2514 on it may round the last microsecond of one up.
    """
    ends = [_number(end) for end in (FIRST_SECOND, LAST_SECOND)]
    endless = f"CASE CAST({value} AS VARCHAR) WHEN 'infinity' THEN {ends[1]} ELSE {ends[0]} END"
    known = f"COALESCE({_double(f'FLOOR(EXTRACT(EPOCH FROM {value}))')}, {endless})"
    seconds = f"LEAST(GREATEST({known}, {ends[0]}), {ends[1]})"
    day = f"FLOOR({seconds} / {_number(SECONDS_OF_DAY)})"
    if feature.of == "hour":
        return f"FLOOR(({seconds} - {_number(SECONDS_OF_DAY)} * {day}) / {_number(3600)})"
    if feature.of in ("weekday", "month"):
        field = {"weekday": "ISODOW", "month": "MONTH"}[feature.of]
        return _double(f"EXTRACT({field} FROM (DATE '1970-01-01' + CAST({day} AS INTEGER)))")
    return seconds if isinstance(feature.part, Date) and feature.part.time else day


def _code(domain: Domain, feature: int) -> str:
    """The expression for the code of a clean value, by which splits compare small integers and a name is written once."""
    part, value = domain.features[feature], f"f{feature}"
    if not isinstance(part, Categorical):
        cuts = met_cuts(domain, feature)
        return f"CASE WHEN {value} IS NULL THEN {len(domain.cuts[feature]) + 1} ELSE {_count(value, cuts, 0)} END"
    if not part.categories:
        return f"CASE WHEN {value} IS NULL THEN {part.n_values + 1} ELSE {_bucket(value, part.n_values)} END"
    if domain.derived[feature].of == "weekday":
        return f"CASE WHEN {value} IS NULL THEN {part.n_values + 1} ELSE CAST({value} AS INTEGER) - 1 END"
    kind = _category_kind(part.categories)
    whens = [
        f"WHEN {value} = {_literal(category, text, kind)} THEN {code}"
        for code, (category, text) in enumerate(zip(part.categories, texts_of(part.categories), strict=True))
        if category is not None and category == category
    ]
    missing = f"WHEN {value} IS NULL THEN {none_code(part.categories)}"
    return f"CASE {' '.join([missing, *whens])} ELSE {len(part.categories)} END"


def _count(value: str, cuts: np.ndarray, n_passed: int) -> str:
    """The expression for how many cuts are at most the value, found by halving."""
    if not len(cuts):
        return str(n_passed)
    middle = len(cuts) // 2
    if cuts[middle] == -np.inf:
        return _count(value, cuts[middle + 1 :], n_passed + middle + 1)
    low, high = _count(value, cuts[:middle], n_passed), _count(value, cuts[middle + 1 :], n_passed + middle + 1)
    return f"CASE WHEN {value} < {_number(cuts[middle])} THEN {low} ELSE {high} END"


def _leaves(forest: Forest) -> list[str]:
    """For each tree, the expression for the number of the leaf that a record reaches."""
    splits = DistinctSplits.of(forest)
    cases = [_cases(split) for split in splits.distinct]
    return [_nested(forest, splits, cases, root) for root in range(forest.n_trees)]


def _nested(forest: Forest, splits: DistinctSplits, cases: list[Cases], root: int) -> str:
    """The expression for the leaf below a node, written piece by piece: of a deep tree no part is written twice."""
    written: list[str] = []
    left: list[str | int] = [root]  # what is still to be written, the last first: text, or a node
    while left:
        node = left.pop()
        if isinstance(node, str):
            written.append(node)
        elif forest.is_leaf[node]:
            written.append(str(node))
        else:
            first, (conditions, otherwise) = int(forest.first_children[node]), cases[splits.of_node[node]]
            left += [" END", first + otherwise, " ELSE "] if conditions else [first + otherwise]
            for child, condition in reversed(conditions):
                left += [first + child, f" WHEN {condition} THEN "]
            left += ["CASE"] if conditions else []
    return "".join(written)


def _cases(split: CodeSplit) -> Cases:
    """Children with their conditions, and the one for all other codes: the child with the longest condition."""
    conditions = {
        child: _condition(split.routes == child, f"c{split.feature}") for child in np.unique(split.routes).tolist()
    }
    otherwise = max(conditions, key=lambda child: len(conditions[child]))
    return [(child, condition) for child, condition in conditions.items() if child != otherwise], otherwise


def _condition(chosen: np.ndarray, code: str) -> str:
    """The condition that a code is among the chosen ones."""
    codes, last, ranges = np.flatnonzero(chosen), len(chosen) - 1, []
    for run in np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1):
        low, high = int(run[0]), int(run[-1])
        if low == high:
            ranges.append(f"{code} = {low}")
        elif low == 0 or high == last:
            ranges.append(f"{code} <= {high}" if low == 0 else f"{code} >= {low}")
        else:
            ranges.append(f"{code} BETWEEN {low} AND {high}")
    return " OR ".join(ranges)


def _votes(forest: Forest) -> list[str]:
    """For each class or bound, the expression for the sum of the votes of the leaves."""
    trees = [np.flatnonzero(forest.is_leaf & (forest.trees == tree)) for tree in range(forest.n_trees)]
    return [
        _sum([_double(_look_up(f"t{tree}", nodes, forest.votes[nodes, value])) for tree, nodes in enumerate(trees, 1)])
        for value in range(forest.votes.shape[1])
    ]


def _look_up(leaf: str, nodes: np.ndarray, votes: np.ndarray) -> str:
    """The expression for the vote of the leaf that was reached, found by halving."""
    if (votes == votes[0]).all():
        return _number(votes[0])
    middle = len(nodes) // 2
    low, high = _look_up(leaf, nodes[:middle], votes[:middle]), _look_up(leaf, nodes[middle:], votes[middle:])
    return f"CASE WHEN {leaf} < {nodes[middle]} THEN {low} ELSE {high} END"


def _sum(terms: list[str]) -> str:
    while len(terms) > MOST_TERMS:
        terms = [f"({_sum(terms[begin : begin + MOST_TERMS])})" for begin in range(0, len(terms), MOST_TERMS)]
    return " + ".join(terms)


def _weights(forest: Forest) -> list[str]:
    """For each class or bound, the expression for what is proportional to its share."""
    sums = [f"s{value}" for value in range(forest.votes.shape[1])]
    if forest.link == "softmax":
        largest = f"GREATEST({', '.join(sums)})"
        lead = [f"{total} - {largest}" for total in sums]
        return [f"CASE WHEN {x} < {LOWEST_EXPONENT} THEN {_double('0')} ELSE EXP({x}) END" for x in lead]
    return [f"GREATEST({_double('0')}, LEAST({_double('1')}, {total}))" for total in sums] if forest.link == "sum" else sums


def _answer(forest: Forest, added: Sequence[str]) -> list[list[str]]:
    """The last layers of the query: shares, the largest of them, then the columns that it adds."""
    weights, names = [f"w{value}" for value in range(forest.votes.shape[1])], [*map(_quoted, added)]
    target = forest.target
    if isinstance(target, Bounded):
        mean = f"{_number(target.range[0])} + {_number(target.span)} * (w1 / ({_sum(weights)}))"
        return [[f"{_double(mean)} AS {names[0]}"]]
    shares, kind = [f"p{value}" for value in range(len(weights))], kind_of(target.labels)
    labels = [_literal(*pair, kind) for pair in zip(target.labels, texts_of(target.labels), strict=True)]
    whens = [f"WHEN {share} = best THEN {label}" for share, label in zip(shares, labels, strict=True)]
    type_ = {"boolean": "BOOLEAN", "whole": "BIGINT", "number": "DOUBLE PRECISION"}.get(kind, "VARCHAR")
    return [
        ["*", f"{_sum(weights)} AS total"],
        _named("p", [f"{weight} / total" for weight in weights]),
        ["*", f"GREATEST({', '.join(shares)}) AS best"],
        [
            f"CAST(CASE {' '.join(whens)} END AS {type_}) AS {names[0]}",
            *(f"{share} AS {name}" for share, name in zip(shares, names[1:], strict=True)),
        ],
    ]
