"""Trees are counted from 1 wherever people read of them, and ± has one meaning."""

import csv
import io
import json
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.text
import pytest
from tests.support.fitted import small_model
from typer.testing import CliRunner

from dpforest import plots
from dpforest.cli.main import commands
from dpforest.errors import ParameterError
from dpforest.model.signal import Signal
from dpforest.show.report.drawing import Drawing

mpl.use("Agg")
ROOT = Path(__file__).parents[2]
MODEL = small_model("li-2022", n_trees=3, max_depth=2)
N_TREES = MODEL.forest_.n_trees
NUMBERS = {*range(1, N_TREES + 1)}


def counted(pattern, text):
    return {int(number) for number in re.findall(pattern, text, re.MULTILINE)}


def test_the_command_the_ledger_and_the_query_count_trees_from_1(tmp_path):
    def shown(*words):
        found = CliRunner().invoke(commands, ["rules", str(tmp_path / "m.dpf"), *words])
        assert found.exit_code == 0, found.output
        return found.stdout

    MODEL.save(tmp_path / "m.dpf")
    shown("--out", str(tmp_path / "r.csv"))
    rows = csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text("utf-8")))
    assert {int(row["tree"]) for row in rows} == NUMBERS
    assert {rule["tree"] for rule in json.loads(shown("--json"))} == counted(r"^tree (\d+):", shown()) == NUMBERS
    query, scopes = MODEL.to_sql("people"), counted(r'"tree": (\d+)', json.dumps(MODEL.ledger_.to_dict()))
    assert counted(r"AS t(\d+)\b", query) == NUMBERS
    assert counted(r"\bt(\d+) [<=]", query) <= NUMBERS
    assert min(scopes) == 1
    assert scopes <= NUMBERS


@pytest.mark.slow
def test_a_plot_is_asked_for_by_index_and_says_the_number():
    for index in range(N_TREES):
        ax = plots.tree(MODEL, index)
        said = " ".join(text.get_text() for text in ax.findobj(mpl.text.Text))
        assert f"tree {index + 1} of {N_TREES}" in said
    with pytest.raises(ParameterError, match=rf"index, .* from 0 \(tree 1\) to {N_TREES - 1} \(tree {N_TREES}\)"):
        plots.tree(MODEL, N_TREES)


def test_python_counts_trees_by_index():
    assert {rule["tree"] for rule in MODEL.forest_.rules()} == {number - 1 for number in NUMBERS}
    assert {node["tree"] for node in json.loads(MODEL.to_json())["forest"]["nodes"]} == {number - 1 for number in NUMBERS}
    assert {row[0] for row in Drawing(Signal.of(MODEL.forest_, MODEL.ledger_)).to_dict()["rules"]} == set(range(N_TREES))


def test_pages_and_programs_with_a_spread_of_their_own_say_which():
    printing = [path for path in (ROOT / "benchmarks").rglob("*.py") if " ± " in path.read_text("utf-8")]
    pages = [path for path in (ROOT / "docs" / "bench").rglob("*.md") if " ± " in path.read_text("utf-8")]
    assert len(printing) >= 5
    assert len(pages) >= 3
    for path in [*printing, *pages]:
        assert re.search(r"standard (error|deviation)", path.read_text("utf-8")), path
