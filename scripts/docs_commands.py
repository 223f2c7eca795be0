"""The page of the command line, from the help texts of the commands."""

import re
from collections.abc import Iterator
from typing import Any

import typer.main
from docs_text import code, prose, table

from dpforest.cli.main import commands

INTRO = """# Command line

Exit codes: 0 done, 1 refused (or, for `audit`, something found), 2 usage. Results go to standard output, progress and
refusals to standard error. `dpforest COMMAND --help` shows what is below."""


def command_page() -> str:
    found = list(walk(typer.main.get_command(commands), "dpforest"))
    rows = [(f"[`{path}`](#{path.replace(' ', '-')})", paragraph(summary(command))) for path, command in found]
    return "\n\n".join(
        (INTRO, table(("command", "what it does"), rows), *(section(path, command) for path, command in found))
    )


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from walk(inner, f"{path} {name}")


def summary(command: Any) -> str:
    return (command.help or "").split("\n\n")[0]


def section(path: str, command: Any) -> str:
    """Help text, usage, arguments and options."""
    with command.make_context(path, [], resilient_parsing=True) as context:
        records = [parameter.get_help_record(context) for parameter in command.params]
        usage = " ".join([path, *command.collect_usage_pieces(context)])
    rows = [(code(name), prose(text)) for name, text in filter(None, records)]
    help_text = [paragraph(piece) for piece in re.split(r"\n\s*\n", command.help or "")]
    options = [table(("argument or option", "meaning"), rows)] if rows else []
    return "\n\n".join((f"## {path}", f"```text\n{usage}\n```", *help_text, *options))


def paragraph(text: str) -> str:
    """Rich markup as Markdown; an example is a block of its own."""
    example = re.fullmatch(r"Examples?:\s*\[bold\](.*)\[/bold\]", text.strip(), re.DOTALL)
    if example:
        return f"For example:\n\n```text\n{example[1]}\n```"
    return prose(re.sub(r"\[bold\](.*?)\[/bold\]", r"`\1`", text))
