"""dpforest schema: draft one from a table's header, and check one."""

import sys
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table

from dpforest.cli.console import add_row, errors, output, print_json, refuse, say, show_table, steps
from dpforest.cli.options import AsJson, check_ending
from dpforest.common.text import shortened

NOT_PRIVATE = "Exact counts of the rows, not private: for whoever holds the table, not for publication."

schema = typer.Typer(help="Draft a schema from a table's header, or check one.", no_args_is_help=True)


@schema.command("draft")
def draft(
    table: Annotated[Path, typer.Argument(help="CSV (also .gz) or Parquet.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write, .toml or .json; by default TABLE.schema.toml.", show_default=False)
    ] = None,
) -> None:
    """Write names and kinds of columns, with bounds and categories left for you to fill in. Writes no value of the table.

    Example: [bold]dpforest schema draft adult.csv --target income[/bold]
    """
    from dpforest.common.files import write_whole
    from dpforest.errors import ParameterError
    from dpforest.records.tables import column_kinds, is_parquet
    from dpforest.schema import draft as drafting
    from dpforest.schema import unfilled

    out = out or Path(f"{table.name.split('.')[0]}.schema.toml")
    writers = {".toml": drafting.toml_draft, ".json": drafting.json_draft}
    check_ending(out, "A draft is written", *writers)
    if out.exists():
        raise ParameterError(f"{out} is there already, perhaps filled in. Move it away, or choose another --out.")
    kinds = column_kinds(table)
    if target is not None and target not in kinds:
        raise ParameterError(f"There is no column {target!r} in {table}; it has {', '.join(map(shortened, kinds))}.")
    content = drafting.draft(kinds, target)
    write_whole(out, writers[out.suffix](content).encode("utf-8"))
    say(f"Draft: {out}")
    output.print(f"Fill in {len(unfilled(content))} entries that are '?': every bound, every list of categories.")
    output.print(
        "They are left open on purpose. A schema is public, and bounds or categories that are read off the rows give away "
        "whose they are; take them from the questionnaire, the code book or the law."
    )
    if not is_parquet(table):
        output.print("Text files do not say types: whether a column is a number or a category is a guess. Correct it.")
    say(f"Then: dpforest schema check {quote(str(out))} --table {quote(str(table))}")


@schema.command("check")
def check(
    schema: Annotated[Path, typer.Argument(help="Public facts about a table, .json or .toml.")],
    table: Annotated[
        Path | None,
        typer.Option(help="Also read this table, and count what fits the schema: exact, for whoever holds it, not private."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is still to be filled in, or show the schema; exit code 1 if it cannot be used yet.

    With --table it also says how many values of each column are readable and listed. These counts are not for publication.

    Example: [bold]dpforest schema check adult.schema.toml --table adult.csv[/bold]
    """
    from dpforest.schema import Schema, read_schema_file, unfilled

    open_entries = unfilled(read_schema_file(schema))
    facts = None if open_entries else Schema.from_file(schema)
    missing, unused = ([], []) if facts is None or table is None else _columns(facts, table)
    seen = None if facts is None or table is None or missing else _count(facts, table)
    if as_json:
        content = None if facts is None else facts.to_dict()
        found = {"to_fill_in": open_entries, "missing_columns": missing, "unused_columns": unused, "schema": content}
        print_json(found | {"table": seen})
    elif facts is None:
        refuse(f"{len(open_entries)} entries are still to be filled in:")
        for entry in open_entries:
            where, dot, name = entry.rpartition(".")
            say(f"  {shortened(where)}{dot}{name}", errors)
        say("Take them from what is public, not from the rows.", errors)
    else:
        _show(facts, missing, unused)
        if seen is not None:
            _show_counts(seen, facts)
    if open_entries or missing or any(column["problem"] for column in (seen or {"columns": []})["columns"]):
        sys.exit(1)


def _columns(facts: Any, table: Path) -> tuple[list[str], list[str]]:
    """Columns of the schema that the table lacks, and columns of the table that the schema does not have."""
    from dpforest.records.tables import header

    given, wanted = header(table), [*facts.features, facts.target.name]
    return [name for name in wanted if name not in given], [name for name in given if name not in wanted]


def _count(facts: Any, table: Path) -> dict[str, Any]:
    """How many values of each column fit the schema, as plain values: exact, for whoever holds the table."""
    from dpforest.records.readable import as_written, count_readable
    from dpforest.records.tables import is_parquet, read_parts

    with steps("Checking") as progress:
        # Parquet has types of its own, whatever the schema declares, and is read as it is written.
        read_as = as_written(facts) if is_parquet(table) else facts
        parts = read_parts(table, read_as, with_target=True, progress=progress)
        written = read_parts(table, as_written(facts), with_target=True)
        n_rows, readings = count_readable(zip(parts, written, strict=True), facts)
    return {"not_for_publication": NOT_PRIVATE, "rows": n_rows, "columns": [reading.to_dict() for reading in readings]}


def _show_counts(seen: dict[str, Any], facts: Any) -> None:
    say(f"\n{NOT_PRIVATE}")
    table = Table("column", title=f"Values in {seen['rows']:,} rows", title_justify="left")
    for head in ("within / listed", "outside / other", "missing", "not readable"):
        table.add_column(head, justify="right")
    for column in seen["columns"]:
        fits, beyond = ("within", "outside") if "within" in column else ("listed", "other")
        counts = [f"{column[name]:,}" for name in (fits, beyond, "missing", "unreadable")]
        add_row(table, shortened(column["name"]), *(counts if column["problem"] is None else ["-"] * 4))
    output.print(table)
    for column in seen["columns"]:
        for near in column["near"]:
            value, label = shortened(repr(near["value"])), shortened(repr(near["would_match"]))
            say(f"{shortened(column['name'])}: {value} ({near['values']:,}) is not listed, but would match {label}.")
        if column["problem"] is not None:
            refuse(column["problem"])
    if facts.n_rows is not None and facts.n_rows != seen["rows"]:
        say(f"The schema declares {facts.n_rows:,} rows; the table has {seen['rows']:,}.")
    *_, target = seen["columns"]
    if target["problem"] is None and target.get("listed") == 0 and facts.target.other is None:
        errors.print("[bold]Warning.[/bold]", end=" ")
        say(f"No label of {shortened(target['name'])!r} is listed: a fit would learn nothing.", errors)


def _show(facts: Any, missing: list[str], unused: list[str]) -> None:
    from dpforest.schema import Classes, Numeric

    rows = []
    for name, part in facts.features.items():
        known = f"{part.lower:,} to {part.upper:,}" if isinstance(part, Numeric) else _categories(part)
        whole = ", whole numbers" if isinstance(part, Numeric) and part.integer else ""
        rows.append((shortened(name), part.kind, known + whole))
    target = facts.target
    known = _listed(target.labels) if isinstance(target, Classes) else f"{target.lower:,} to {target.upper:,}"
    rows.append((f"{shortened(target.name)} (target)", target.kind, known))
    show_table("Schema", ("column", "kind", "public facts"), rows)
    n_rows = "measured with noise by a fit" if facts.n_rows is None else f"{facts.n_rows:,}, declared public"
    say(f"Number of rows: {n_rows}.")
    vouched_by = shortened(facts.vouched_by) if facts.vouched_by else "nobody; add vouched_by to the file"
    say(f"Vouched for by: {vouched_by}" + ("" if vouched_by.endswith((".", "…")) else "."))
    for name in missing:
        refuse(f"The table has no column {shortened(name)!r}.")
    if unused:
        say(f"Not in the schema, so not read: {', '.join(map(shortened, unused))}")


def _categories(part: Any) -> str:
    return _listed(part.categories) if part.categories else f"any value, in {part.buckets} buckets by a public hash"


def _listed(values: Any) -> str:
    shown = ", ".join(map(_label, values[:6]))
    return shown + (f" and {len(values) - 6} more" if len(values) > 6 else "")


def _label(value: Any) -> str:
    """A category, in quotes where it would else be taken for a number or for one without its blanks."""
    text = shortened(value)
    if not isinstance(value, str):
        return text
    try:
        float(value)
    except ValueError:
        return text if value and value == value.strip() else f'"{text}"'
    return f'"{text}"'
