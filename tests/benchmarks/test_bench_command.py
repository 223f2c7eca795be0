"""``python -m benchmarks``: each benchmark with its own options, in a clone; kept pages are what their rows give."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from matplotlib.figure import Figure
from tests.benchmarks.small import BENCH
from typer.testing import CliRunner

from benchmarks import accounting, search
from benchmarks.bounds import report as bounds
from benchmarks.commands import commands
from benchmarks.engines import report as engines
from benchmarks.papers import report as papers
from benchmarks.speed import report as speed
from benchmarks.utility import report as utility
from dpforest.cli.main import commands as dpforest

ROOT = Path(__file__).parents[2]
COMMAND = typer.main.get_command(commands)


def test_every_benchmark_has_its_own_options():
    options = {
        name: {option for part in command.params for option in part.opts} for name, command in COMMAND.commands.items()
    }
    names = "foundation interactions large papers utility speed engines search bounds accounting"
    assert {*options} == {*names.split()}
    assert options["foundation"] == {"--json"}
    assert options["interactions"] == {"--rows", "--json"}
    assert options["papers"] == {"--quick", "--results", "--report", "--json"}
    for option, owners in {
        "--systems": {"utility", "bounds"},
        "--before": {"bounds"},
        "--parquet-rows": {"speed"},
        "--rows": {"engines", "interactions", "large"},
        "--only": {"speed", "engines"},
        "--render": {"speed", "engines", "search", "bounds", "accounting"},
    }.items():
        assert {name for name, own in options.items() if option in own} == owners


def test_an_unknown_benchmark_or_option_is_a_usage_error():
    for words in (["nope"], ["papers", "--parquet-rows", "5"]):
        assert CliRunner().invoke(commands, words).exit_code == 2


def test_the_old_name_says_the_new_one():
    ended = CliRunner().invoke(dpforest, ["bench", "speed", "--quick"])
    assert (ended.exit_code, "`python -m benchmarks`" in ended.stderr) == (2, True)


@pytest.mark.slow
def test_benchmarks_run_in_a_clone_and_refuse_in_one_line():
    def ended(*words):
        return subprocess.run([sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True)

    listed = ended("--help")
    assert listed.returncode == 0, listed.stderr
    assert all(name in listed.stdout for name in COMMAND.commands)
    refused = ended("papers", "--results", "no/such/file.jsonl")
    assert (refused.returncode, refused.stderr.count("Traceback")) == (1, 0)
    assert refused.stderr.startswith("Refused. ")


@pytest.mark.slow
def test_other_commands_do_not_load_the_benchmarks():
    code = "import sys, dpforest.cli.main; sys.exit(any(name.startswith('benchmarks') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bench",
    [search, accounting, bounds, engines, papers, speed, pytest.param(utility, marks=pytest.mark.night)],
    ids=lambda bench: bench.__name__,
)
def test_the_kept_page_is_what_its_rows_give(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda *given, **named: None)  # pictures take a minute
    name = bench.__name__.split(".")[1]
    rows = BENCH / f"{name}.jsonl"
    if bench is utility:
        rows = tmp_path / rows.name
        rows.write_bytes(gzip.decompress((BENCH / f"{rows.name}.gz").read_bytes()))
    page = bench.write(rows, tmp_path)
    made, shown = (path.read_text("utf-8").split("\n\n") for path in (page, BENCH / f"{name}.md"))
    assert [part for part in made if part[:2] != "!["] == [part for part in shown if part[:2] != "!["]
