"""dpforest schema: draft one from a table's header, and check one."""

import sys
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Column

from dpforest.cli.console import errors, output, print_json, refuse, say, show_table, steps, warn
from dpforest.cli.options import TABLE, AsJson, ReadAs, check_ending, opened, takes_format
from dpforest.common.files import write_whole
from dpforest.common.text import counted, listed_names, shortened
from dpforest.errors import ParameterError, SchemaError

NOT_PRIVATE = "Exact counts of the rows, not private: for whoever holds the table, not for publication."

schema = typer.Typer(help="Draft a schema from a table's header, or check one.", no_args_is_help=True)


@schema.command("draft")
@takes_format
def draft(
    table: Annotated[str, typer.Argument(help=f"{TABLE}.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write, .toml or .json; by default TABLE.schema.toml.")] = None,
    *,
    read_as: ReadAs,
) -> None:
    """Write names and kinds of columns; you fill in who vouches for them, and the labels. Writes no value of the table.

    Example: [bold]dpforest schema draft adult.csv --target income[/bold]
    """
    from dpforest.records.columns import near_name
    from dpforest.records.doors import short_name, shown_address
    from dpforest.records.drafts import like_ids, recognise
    from dpforest.schema import draft as drafting
    from dpforest.schema import unfilled
    from dpforest.schema.schema import json_text
    from dpforest.schema.words import format_words

    out = out or Path(f"{short_name(table)}.schema.toml")
    writers = {".toml": drafting.toml_draft, ".json": json_text}
    check_ending(out, "A draft is written", *writers)
    if out.exists():
        raise ParameterError(f"{out} is there already, perhaps filled in. Move it away, or choose another --out.")
    format = recognise(table, read_as)
    reader = opened(table, format, names_lines=True)
    kinds = reader.kinds()
    if target is not None and target not in kinds:
        raise ParameterError(
            f"There is no column {target!r} in {shown_address(table)}; it has {', '.join(map(shortened, kinds))}."
            f"{near_name(target, list(kinds))}"
        )
    if target is not None and kinds[target] not in drafting.PREDICTED:
        raise ParameterError(f"Column {target!r} cannot be the target by its type; numbers, text and truth values can.")
    has_names = reader.public_names() is not None  # else a fit takes no pattern
    content = drafting.draft(kinds, target, None if reader.typed else format, with_patterns=has_names)
    if not content["features"]:
        raise ParameterError(f"There is no column in {shown_address(table)} to predict from.")
    write_whole(out, writers[out.suffix](content).encode("utf-8"))
    say(f"Draft: {out}")
    say(f"To fill in, where there is a '?': {', '.join(unfilled(content))}.")
    output.print(
        "All else may stay as it is. Bounds and lists of categories make the model better where they are known before "
        "anyone looks at the rows; read off the rows they give away whose they are."
    )
    guessed = reader.guessed()
    if len(guessed) == len(kinds):
        output.print("Text files do not say types: whether a column is a number or a category is a guess. Correct it.")
    elif guessed:
        say(
            f"Names of folders do not say types: whether {', '.join(map(shortened, guessed))} are numbers, dates or "
            "categories is a guess. Correct it."
        )
    if "format" in content:
        say(f"How the file is written, under [format], is a guess as well: {format_words(content['format'])}.")
    _show_like_ids([name for name in like_ids(reader, kinds) if name != target])
    unusable = [name for name, kind in kinds.items() if kind == drafting.UNUSABLE]
    if unusable:
        say(f"Left out, since their type holds neither numbers nor text nor dates: {', '.join(map(shortened, unusable))}.")
    say(f"Then: dpforest schema check {quote(str(out))} --table {quote(shown_address(table))}")


@schema.command("check")
@takes_format
def check(
    schema: Annotated[Path, typer.Argument(help="Public facts about a table, .json or .toml.")],
    table: Annotated[
        str | None,
        typer.Option(help="Also read this table, and count what fits the schema: exact, for whoever holds it, not private."),
    ] = None,
    as_json: AsJson = False,
    *,
    read_as: ReadAs,
) -> None:
    """Say what is still to be filled in, or show the schema; exit code 1 if it cannot be used yet.

    With --table it also says how many values of each column are readable and listed. These counts are not for publication.

    Example: [bold]dpforest schema check adult.schema.toml --table adult.csv[/bold]
    """
    from dpforest.records.doors import hint
    from dpforest.records.drafts import like_ids
    from dpforest.schema import Schema, read_schema_file, unfilled
    from dpforest.schema.words import is_id_name

    content = read_schema_file(schema)
    report: dict[str, Any] = {"to_fill_in": [], "missing_columns": [], "unused_columns": []}
    if open_entries := unfilled(content):
        if as_json:
            print_json(report | {"to_fill_in": open_entries, "schema": None, "patterns": {}, "like_ids": [], "table": None})
        else:
            _refuse_open(content, open_entries)
        sys.exit(1)
    written = Schema.from_file(schema)
    reader = None if table is None else opened(table, read_as(written.format), names_lines=True)
    facts, patterns, missing, unused = (written, {}, [], []) if reader is None else _meet(written, reader)
    seen = None if reader is None or missing else _count(facts, reader)
    by_value = [] if reader is None or seen is None else like_ids(reader, reader.kinds())
    suspects = [name for name in facts.features if name in by_value or is_id_name(name)]
    if as_json:
        report |= {"missing_columns": missing, "unused_columns": unused}
        print_json(report | {"schema": written.to_dict(), "patterns": patterns, "like_ids": suspects, "table": seen})
    else:
        _show(written, patterns)
        _show_who(written)
        for name in missing:
            matching = " that matches" if name in patterns else ""
            refuse(f"The table has no column{matching} {shortened(name)!r}.")
        if missing and reader is not None and hint(reader):
            say(hint(reader), errors)
        if unused:
            say(f"Not in the schema, so not read: {', '.join(map(shortened, unused))}")
        if seen is not None:
            _show_counts(seen, facts)
        _show_like_ids(suspects)
    if missing or any(column["problem"] for column in (seen or {"columns": []})["columns"]):
        sys.exit(1)


def _refuse_open(content: Any, open_entries: list[str]) -> None:
    """Say what is still to be filled in, and how columns will be read, as far as that is known."""
    from dpforest.schema import UNFILLED, Schema

    is_open = any(entry.startswith("target.") for entry in open_entries)
    if is_open:  # a target that stands for one that is not known yet
        content = content | {
            "target": {"name": content["target"].get("name", UNFILLED), "kind": "classes", "labels": [UNFILLED]}
        }
    with suppress(SchemaError):  # if features are not known either
        _show(Schema.from_dict(content), {}, is_open)
    refuse(f"{counted(len(open_entries), 'entry is', 'entries are')} still to be filled in:")
    for entry in open_entries:
        where, dot, name = entry.rpartition(".")
        say(f"  {shortened(where)}{dot}{name}", errors)
    say("Take them from what is public, not from the rows.", errors)


def _show_like_ids(names: list[str]) -> None:
    if names:
        say(
            f"By name, or since no value comes twice, these may be ids: {', '.join(map(shortened, names))}. Delete what "
            "only names or numbers rows or persons; one_row_per_person is for the column that says whose row it is."
        )


def _meet(written: Any, reader: Any) -> tuple[Any, dict[str, int], list[str], list[str]]:
    """The schema for a table, the number of columns of each pattern, columns that the table lacks, and ones not read."""
    from dpforest.schema.patterns import columns_of_patterns, expanded

    given = reader.names()
    found = columns_of_patterns(written, given)
    # A pattern that stands for nothing is a column that the table lacks.
    named = [*written.features, written.target.name, *filter(None, [written.id_column])]
    missing = [name for name in named if name not in given and not found.get(name)]
    facts = written if missing else expanded(written, lambda: given)
    wanted = {*facts.features, *named, *(name for own in found.values() for name in own)}
    patterns = {pattern: len(own) for pattern, own in found.items()}
    return facts, patterns, missing, [name for name in given if name not in wanted]


def _count(facts: Any, reader: Any) -> dict[str, Any]:
    """How many values of each column fit the schema, as plain values: exact, for whoever holds the table."""
    from dpforest.records.doors import format_of
    from dpforest.records.drafts import as_written, count_readable
    from dpforest.records.source import Asked

    with steps("Checking") as progress:
        parts = reader.chunks(Asked(facts, with_target=True, any_type=True), progress)
        # A table that has types of its own is read as it is written, whatever the schema declares.
        written = None if reader.typed else reader.chunks(Asked(as_written(facts), with_target=True, any_type=True))
        pairs = ((part, part) for part in parts) if written is None else zip(parts, written, strict=True)
        n_rows, readings = count_readable(pairs, facts, format_of(reader))
    return {"not_for_publication": NOT_PRIVATE, "rows": n_rows, "columns": [reading.to_dict() for reading in readings]}


def _show_counts(seen: dict[str, Any], facts: Any) -> None:
    say(f"\n{NOT_PRIVATE}")
    rows = []
    for column in seen["columns"]:
        names = ("within", "outside") if "within" in column else ("listed", "other")
        counts = [f"{column[name]:,}" for name in (*names, "missing", "unreadable")]
        rows.append([shortened(column["name"]), *(counts if column["problem"] is None else ["-"] * 4)])
    heads = [Column(head, justify="right") for head in ("within / listed", "outside / other", "missing", "not readable")]
    show_table(f"Values in {seen['rows']:,} rows", ("column", *heads), rows)
    for column in seen["columns"]:
        for near in column["near"]:
            value, label = shortened(repr(near["value"])), shortened(repr(near["would_match"]))
            say(f"{shortened(column['name'])}: {value} ({near['values']:,}) is not listed, but would match {label}.")
        if column["odd_groups"]:
            marks = counted(column["odd_groups"], "value has", "values have")
            where = "elsewhere than before three digits. If it is the decimal mark, correct [format]."
            say(f"{shortened(column['name'])}: {marks} the mark of thousands {where}")
        if column["problem"] is not None:
            refuse(column["problem"])
    if facts.n_rows is not None and facts.n_rows != seen["rows"]:
        say(f"The schema declares {facts.n_rows:,} rows; the table has {seen['rows']:,}.")
    *_, target = seen["columns"]
    if target["problem"] is None and target.get("listed") == 0 and facts.target.other is None:
        warn(f"No label of {shortened(target['name'])!r} is listed: a fit would learn nothing.")
    elif target["problem"] is None and target.get("other") and facts.target.other is None:
        left_out = counted(target["other"], "row has a label that is", "rows have labels that are")
        warn(f"{left_out} not listed. A fit leaves such rows out, and so does a score.")


def _show(facts: Any, patterns: dict[str, int], is_open: bool = False) -> None:
    """Print how each column is read, and what would make the schema sharper; ``is_open`` if the target is not known yet."""
    from dpforest.schema.words import how_found, in_words, unknowns

    rows = []
    for name, part in facts.features.items():
        stands = f" ({counted(patterns[name], 'column')})" if name in patterns else ""
        rows.append(
            (f"{shortened(name)}{stands}", part.kind, (in_words(part) or _listed(part.categories)) + how_found(part))
        )
    target = facts.target
    known = "to be filled in" if is_open else (in_words(target) or _listed(target.labels)) + how_found(target)
    rows.append((f"{shortened(target.name)} (target)", target.kind, known))
    show_table("Schema", ("column", "kind", "how it is read"), rows)
    sharper = [(listed_names(each.columns), each.gain) for each in unknowns(facts)]
    if sharper:
        show_table("Could be sharper, where more is known before anyone looks at the rows", ("columns", "it buys"), sharper)


def _show_who(facts: Any) -> None:
    from dpforest.schema.words import format_words, unit_words

    if entries := facts.format.to_dict():
        say(f"Text files are read with {format_words(entries)}.")
    say(f"{unit_words(facts)}.")
    n_rows = "measured with noise by a fit" if facts.n_rows is None else f"{facts.n_rows:,}, declared public"
    say(f"Number of rows: {n_rows}.")
    vouched_by = shortened(facts.vouched_by) if facts.vouched_by else "nobody; add vouched_by to the file"
    say(f"Vouched for by: {vouched_by}" + ("" if vouched_by.endswith((".", "…")) else "."))


def _listed(values: Any) -> str:
    shown = ", ".join(map(_label, values[:6]))
    return shown + (f" and {len(values) - 6} more" if len(values) > 6 else "")


def _label(value: Any) -> str:
    """A category, in quotes where it would else be taken for a number or for one without its blanks."""
    if not isinstance(value, str):
        return shortened(value)
    is_plain = value and value == value.strip()
    with suppress(ValueError):
        float(value)
        is_plain = False
    return shortened(value) if is_plain else f'"{shortened(value)}"'
