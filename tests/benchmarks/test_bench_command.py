"""``python -m benchmarks``: each benchmark with its own options, in a clone."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from benchmarks.commands import commands

ROOT = Path(__file__).parents[2]
BENCH = typer.main.get_command(commands)


def test_every_benchmark_has_its_own_options():
    options = {name: {option for part in command.params for option in part.opts} for name, command in BENCH.commands.items()}
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


@pytest.mark.slow
def test_benchmarks_run_in_a_clone_and_refuse_in_one_line():
    def ended(*words):
        return subprocess.run([sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True)

    listed = ended("--help")
    assert listed.returncode == 0, listed.stderr
    assert all(name in listed.stdout for name in BENCH.commands)
    refused = ended("papers", "--results", "no/such/file.jsonl")
    assert (refused.returncode, refused.stderr.count("Traceback")) == (1, 0)
    assert refused.stderr.startswith("Refused. ")


@pytest.mark.slow
def test_other_commands_do_not_load_the_benchmarks():
    code = "import sys, dpforest.cli.main; sys.exit(any(name.startswith('benchmarks') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
