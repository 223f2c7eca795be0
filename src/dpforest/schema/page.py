"""A schema as HTML, for notebooks. Public values only."""

from dpforest.common.html import panel, paragraph, table
from dpforest.schema.kinds import Categorical, Classes, Date, Feature, Target
from dpforest.schema.schema import Schema
from dpforest.schema.unit import unit_words
from dpforest.schema.words import in_words

MOST_LISTED = 8


def schema_html(schema: Schema) -> str:
    """The columns of a schema with their possible values, its target, and what else it says."""
    features = [(name, _kind(part), _values(part)) for name, part in schema.features.items()]
    target = (f"{schema.target.name} (target)", _kind(schema.target), _values(schema.target))
    rows = "not declared, so it stays protected" if schema.n_rows is None else f"{schema.n_rows:,}, declared public"
    vouched = [paragraph(f"Vouched for by: {schema.vouched_by}")] if schema.vouched_by else []
    is_read = schema.source == "assume-public"
    title = "Schema: what is public about the table"
    title = "Schema: read off the rows themselves, and only assumed to be public; NO guarantee holds" if is_read else title
    facts = [paragraph(f"Number of rows: {rows}."), paragraph(f"{unit_words(schema)}."), *vouched]
    return panel(title, table(("Column", "Kind", "Values"), [target, *features]), *facts, is_alarm=is_read)


def _kind(part: Feature | Target) -> str:
    if isinstance(part, Date):
        return "point in time" if part.time else "date"
    if isinstance(part, Categorical | Classes):
        return "category" if isinstance(part, Categorical) else "class"
    return "whole number" if getattr(part, "integer", False) else "number"


def _values(part: Feature | Target) -> str:
    listed = part.categories if isinstance(part, Categorical) else part.labels if isinstance(part, Classes) else ()
    if not listed:
        return in_words(part)
    more = f" and {len(listed) - MOST_LISTED:,} more" if len(listed) > MOST_LISTED else ""
    return ", ".join(str(value)[:40] for value in listed[:MOST_LISTED]) + more
