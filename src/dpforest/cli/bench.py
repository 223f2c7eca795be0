"""dpforest bench: the old name of ``python -m benchmarks``, for one release."""

import typer

from dpforest.cli.console import refuse

MOVED = (
    "The benchmarks are not part of what pip installs: they are in the repository of dpforest, beside its sources. Clone "
    "it, then type in its folder: pip install --editable '.[bench]', and python -m benchmarks --help."
)


def bench(context: typer.Context) -> None:
    """Say how benchmarks are run: they have a program of their own."""
    refuse(MOVED)
    raise typer.Exit(2)
