"""``dpforest bench``: each benchmark with its own options, found in a clone, and explained where it is not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from dpforest.cli.main import commands

ROOT = Path(__file__).parents[2]
BENCH = typer.main.get_command(commands).commands["bench"]


@pytest.fixture
def installed(tmp_path):
    """Runs a command of a copy of the package as pip would install it: without what stands beside its sources."""
    ignored = shutil.ignore_patterns("__pycache__", "*.nb[ci]")
    shutil.copytree(ROOT / "src" / "dpforest", tmp_path / "site" / "dpforest", ignore=ignored)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1", "COLUMNS": "200"}

    def run(*words, cwd=tmp_path):
        command = [sys.executable, "-m", "dpforest.cli", *words]
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)

    return run


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
        assert CliRunner().invoke(commands, ["bench", *words]).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize("words", [["bench", "--help"], ["bench", "speed", "--quick"]])
def test_without_the_benchmarks_the_command_says_how_to_get_them(installed, tmp_path, words):
    # Somebody else's package of that name is not taken for ours.
    (tmp_path / "site" / "benchmarks").mkdir()
    (tmp_path / "site" / "benchmarks" / "__init__.py").write_text("raise SystemExit('a stranger')")
    ended = installed(*words)
    assert ended.returncode == 2
    assert "Clone the repository" in ended.stderr
    assert "pip install --editable" in ended.stderr
    assert "stranger" not in ended.stdout + ended.stderr


@pytest.mark.slow
def test_in_a_clone_the_benchmarks_are_found(installed):
    ended = installed("bench", "--help", cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    assert all(name in ended.stdout for name in BENCH.commands)


@pytest.mark.slow
def test_other_commands_do_not_load_the_benchmarks():
    code = "import sys, dpforest.cli.main; sys.exit(any(name.startswith('benchmarks') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
