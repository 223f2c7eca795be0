"""dpforest rules, ledger, export and report: a saved model as sentences, as charges, elsewhere, and as a page about it."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dpforest.cli.budget import open_budget
from dpforest.cli.console import print_json, say, show_table, steps
from dpforest.cli.options import AsJson, Model, RawText, check_ending, check_page
from dpforest.common.files import check_writable, read_entries, read_whole, write_whole
from dpforest.common.text import cell, one_line, to_json
from dpforest.errors import OutputError, ParameterError

MOST_BYTES_ABOUT, MOST_BYTES, MOST_LEVELS = 1 << 20, 1 << 25, 32


def rules(
    model: Model,
    out: Annotated[Path | None, typer.Option(help="Write a table (.csv, .json) or text (.txt) instead of printing.")] = None,
    leaves: Annotated[bool, typer.Option("--leaves", help="Only rules that end at a leaf.")] = False,
    min_confidence: Annotated[
        float | None, typer.Option(help="Only rules whose class has at least this share of the records, from 0 to 1.")
    ] = None,
    min_support: Annotated[float | None, typer.Option(help="Only rules about at least so many records.")] = None,
    as_json: AsJson = False,
    raw_text: RawText = False,
) -> None:
    """Print every root-to-node rule with its class, released confidence and support.

    On the screen a tree that counts nothing, a score of one column, is one line with its strongest rules.
    Tables also have the released count and share of each class. Trees are counted from 1, as in the report.
    A value without noise lies within its band (± or "a to b") with a probability of about 95 %.
    Choosing rules costs nothing: all of it was released.

    Example: [bold]dpforest rules adult.dpf --out rules.csv --min-confidence 0.9 --min-support 500[/bold]
    """
    from dpforest.estimators import load_model

    kind = out.suffix if out else ".json" if as_json else ".txt"
    if out is not None:
        if kind:
            check_ending(out, "Rules are written", ".csv", ".json", ".txt")
        check_writable(out, model)
    with steps("Rules"):
        forest = load_model(model).forest_
        chosen = [rule for rule in forest.rules(min_confidence, min_support) if rule["leaf"] or not leaves]
        if kind in (".csv", ".json"):
            rows = [rule | {"tree": rule["tree"] + 1, "class": rule.get("class")} for rule in chosen]
            text = _csv(rows, raw_text) if kind == ".csv" else to_json(rows, indent=1 if out else 2)
        else:
            text = "\n".join(map(forest.rule_line, chosen) if out else _folded(chosen, forest.rule_line))
    if out is None:
        say(text or "No rule has that confidence and support.")
        return
    write_whole(out, text.encode("utf-8", "backslashreplace"))  # half a character has no UTF-8
    say(f"Rules: {out}")


def _folded(rules: list[dict[str, Any]], line: Callable[[dict[str, Any]], str]) -> Iterator[str]:
    """Lines of rules to print; a tree in which nothing is counted, a score of a column, has one line."""
    trees: dict[int, list[dict[str, Any]]] = {}
    for rule in rules:
        trees.setdefault(rule["tree"], []).append(rule)
    scores = {tree: own for tree, own in trees.items() if len(own) > 1 and not any(map(_counts, own))}
    for rule in rules:
        own = scores.get(rule["tree"])
        if own is None:
            yield line(rule)
        elif rule is own[0]:
            yield _score_line(own)
    if scores:
        yield "Trees that count nothing have one line each. All of their rules: --out rules.txt, .csv or .json."


def _counts(rule: dict[str, Any]) -> bool:
    """Whether a rule has a count, or is one of a forest whose trees are not added up."""
    return "adds" not in rule or rule["support"] > 0 or rule["support_band"] is not None


def _score_line(rules: list[dict[str, Any]]) -> str:
    """The strongest rule of a tree for each class, or up and down."""
    from dpforest.forest.tree import said_words

    strongest: dict[Any, dict[str, Any]] = {}
    for rule in sorted(rules, key=lambda rule: -abs(rule["adds"])):
        strongest.setdefault(rule.get("class", rule["adds"] > 0), rule)
    words = "; ".join(f"{said_words(rule)} if {rule['rule']}" for rule in strongest.values())
    return one_line(f"tree {rules[0]['tree'] + 1}: {len(rules)} rules without counts; the strongest: {words}")


def _csv(rows: list[dict[str, Any]], raw_text: bool) -> str:
    """Rules as CSV, with the class distribution as JSON in one column, since labels that differ may look alike as names."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "conditions"]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names or ["tree", "node", "leaf", "rule", "support"], extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        written = row | {"distribution": to_json(row.get("distribution"))}
        writer.writerow({name: cell(x) if isinstance(x, str) and not raw_text else x for name, x in written.items()})
    return stream.getvalue()


def ledger(
    model: Model,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole ledger as JSON, for an accountant.")] = False,
) -> None:
    """Print every charge of a model: what it paid for, the mechanism with its parameters, and how charges add up.

    This is for a privacy officer who does not want to take the stated epsilon on trust. Each loss follows from the
    parameters of its mechanism, and the total from the scopes: the parts of a scope add up, of parallel parts the largest
    counts, a sum s in a bootstrap costs exp(s) - 1, and a scope with copies counts as often as it has copies. The guide
    "The report" has the formulas.

    Example: [bold]dpforest ledger adult.dpf --json[/bold]
    """
    from dpforest.estimators import load_model
    from dpforest.model.file import model_digest
    from dpforest.privacy.composition import entries

    loaded = load_model(model)
    charges = loaded.ledger_
    if as_json:
        print_json(charges.to_dict())
        return
    for number, book in enumerate(charges.books, 1):
        accountant, unit = book.accountant, book.accountant.unit
        at, share = _at(accountant.noise_delta), accountant.share
        sample = f" on a secret sample of {float(share):.3g} of the records" if share < 1 else ""
        stated = f", stated as epsilon = {accountant.epsilon_of(book.total):.6g}{at}" if at or sample else ""
        listed = accountant.threshold_delta
        lists = f"; delta = {listed:.3g} for values that are named" if listed else ""
        rows = []
        for scopes, entry in entries(book.root):
            ran_with = ", ".join(f"{name} {value}" for name, value in entry.mechanism.parameters.items()) or "not recorded"
            place = " / ".join(map(_scope, scopes[1:]))
            rows.append((place, entry.label, entry.mechanism.name, ran_with, f"{entry.amount:.6g}"))
        title = f"Book {number}: {unit} = {book.total:.6g}{sample}{stated}{lists}"
        show_table(title, ("scope", "for", "mechanism", "ran with", unit), rows)
    of_unit = f" of a person with at most {charges.rows} rows" if charges.rows > 1 else ""
    spent = f"Spent{of_unit}: epsilon = {charges.spent:.6g}{_at(charges.delta)}"
    say(f"{spent}. Amounts in the table are for one of the records that are used.")
    say(f"Hash of the model, as its report has it: {model_digest(loaded)}")


def _at(delta: float) -> str:
    return f" at delta = {delta:.3g}" if delta else ""


def _scope(scope: Any) -> str:
    kind = "" if scope.kind == "sequential" else f" ({scope.kind})"
    return f"{scope.label}{kind}" + (f" x {scope.copies}" if scope.copies > 1 else "")


def export(
    model: Model,
    out: Annotated[Path, typer.Option(help="Where to write; the ending says what: .onnx, .sql or .json.")],
    table: Annotated[str, typer.Option(help="For .sql: the table that the query scores.")] = "records",
    id: Annotated[
        list[str] | None,
        typer.Option(
            help="For .sql: a column to give beside the predictions and to order them by, instead of all columns in no "
            "order; may be repeated."
        ),
    ] = None,
) -> None:
    """Write a model as ONNX, as a SQL query that scores a table, or as JSON; [bold]dpforest rules[/bold] writes its rules.

    Example: [bold]dpforest export adult.dpf --out adult.onnx[/bold]
    """
    from dpforest.estimators import load_model

    check_ending(out, "Models are exported", ".onnx", ".sql", ".json")
    check_writable(out, model)
    if id and out.suffix != ".sql":
        raise ParameterError("--id names columns of a table in a database; it goes with an export to .sql alone.")
    with steps("Export") as progress:
        progress("reading the model")
        forest = load_model(model)
        progress(f"writing {out.suffix}")
        if out.suffix == ".onnx":
            content = forest.to_onnx()
        else:
            content = (forest.to_sql(table, id or ()) if out.suffix == ".sql" else forest.to_json()).encode("utf-8")
        write_whole(out, content)
    say(f"Model: {out}")


def report(
    model: Model,
    out: Annotated[Path, typer.Option(help="Where to write the page, .html; the same as JSON goes beside it.")],
    dataset: Annotated[str | None, typer.Option(help="The name of the data set.")] = None,
    dataset_version: Annotated[str | None, typer.Option(help="The version of the data set, or its day.")] = None,
    purpose: Annotated[str | None, typer.Option(help="What the model is for.")] = None,
    contact: Annotated[str | None, typer.Option(help="Who answers questions.")] = None,
    about: Annotated[
        Path | None, typer.Option(help="A file, .toml or .json, with these and what a public registry asks for.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Show the budget of the data set, FILE::DATASET; it stays as it is.")
    ] = None,
    audit: Annotated[Path | None, typer.Option(help="What 'dpforest audit --json' printed, to be shown too.")] = None,
    evaluation: Annotated[
        Path | None, typer.Option(help="What 'dpforest evaluate' wrote beside its page, to be shown too.")
    ] = None,
) -> None:
    """Write the privacy report of a model: one page that needs no network, and the same as JSON.

    What is not stated stays open on the page. Options count before the entries of a file.

    Example: [bold]dpforest report adult.dpf --out report.html --dataset "Adult census" --purpose "Teaching"[/bold]
    """
    from dpforest.estimators import load_model

    twin = check_page(out, "A report is written", model, audit, about, evaluation)
    options = {"dataset": dataset, "dataset_version": dataset_version, "purpose": purpose, "contact": contact}
    entries_of_file = {} if about is None else read_entries(about, "description", MOST_BYTES_ABOUT, ParameterError)
    if not isinstance(entries_of_file, dict):
        raise ParameterError(f'{about} must map fields to texts, such as {{"purpose": "…"}}.')
    said = entries_of_file | {name: text for name, text in options.items() if text is not None}
    found = None if audit is None else _read_json(audit, "audit")
    if audit is not None and not (isinstance(found, dict) and isinstance(found.get("audits"), list)):
        raise ParameterError(f"{audit} is not what 'dpforest audit --json' prints.")
    charged_to = open_budget(budget)
    scores = None if evaluation is None else _read_json(evaluation, "evaluation")
    with steps("Report") as progress:
        progress("reading the model")
        forest = load_model(model)
        progress("writing the page")
        forest.save_report(out, found, said, charged_to, scores)
    say(f"Report: {out}\nAs JSON: {twin}")


def _read_json(path: Path, what: str) -> Any:
    """What a file of JSON holds; an empty text if it is none, or too deep, which no reader of it takes."""
    try:
        content = json.loads(read_whole(path, MOST_BYTES).decode("utf-8"))
    except OSError as error:
        raise ParameterError(f"The {what} {path} cannot be read: {error.strerror}.") from None
    except OutputError as error:
        raise ParameterError(f"The {what} cannot be read: {error}") from None
    except (ValueError, RecursionError):
        return ""
    return content if _is_within(content, MOST_LEVELS) else ""


def _is_within(value: Any, levels: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_within(item, levels - 1) for item in inside)
