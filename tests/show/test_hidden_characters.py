"""What people read and sign shows every character or its number, counts trees from 1, and has one meaning of ±."""

import csv
import io
import json
import re
import tomllib
import unicodedata
from pathlib import Path

import matplotlib as mpl
import matplotlib.text
import pytest
from tests.support.fitted import small_model
from tests.torture.forged import forge
from tests.torture.samples import classifier
from typer.testing import CliRunner

from dpforest import Bounded, Numeric, Schema, load_model, plots
from dpforest.cli.main import commands
from dpforest.common.text import TIMES, figure, one_line, visible
from dpforest.errors import ModelFileError, ParameterError
from dpforest.model.signal import Signal
from dpforest.schema.draft import draft, toml_draft
from dpforest.schema.schema import json_text
from dpforest.show.report.drawing import Drawing

UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
MARK = "\u202e\u2066\x1b[31m\x85\u061c\u00ad\U000e0041\ufff9"


def unseen(text):
    return {letter for letter in text if unicodedata.category(letter) in UNSEEN and letter not in "\n\u200c\u200d"}


def texts_in(value, path=()):
    """Where a header has texts: the keys and places that lead to each."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] if isinstance(value, str) else [found for key, item in inside for found in texts_in(item, (*path, key))]


def marked(facts, path):
    for key in path[:-1]:
        facts = facts[key]
    facts[path[-1]] += MARK


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dpforest.errors.LeakWarning")
@pytest.mark.parametrize("variant", ["private", "published"])
def test_no_text_of_a_forged_model_reaches_a_page_or_a_terminal_unseen(tmp_path, variant):
    path, paths = tmp_path / "m.dpf", []
    classifier(max_depth=1, n_trees=1, recipe="fletcher-islam-2017", variant=variant).save(path)
    forge(path, {}, lambda facts: paths.extend(texts_in(facts)))
    n_marked = 0
    for place in paths:
        before = path.read_bytes()
        try:
            forge(path, {}, lambda facts, place=place: marked(facts, place))
            load_model(path)
            n_marked += 1
        except ModelFileError:
            path.write_bytes(before)
    assert n_marked > 20
    asked = (["report", path, "--out", tmp_path / "r.html"], ["ledger", path], ["rules", path], ["ledger", path, "--json"])
    for words in asked:
        found = CliRunner().invoke(commands, [*map(str, words)])
        assert (found.exit_code, unseen(found.output)) == (0, set())
    assert unseen(Path(tmp_path, "r.html").read_text("utf-8")) == set()
    model = load_model(path)
    assert all(unseen(part._repr_html_()) == set() for part in (model.schema_, model.privacy_, model.ledger_, model))


@pytest.mark.parametrize(("write", "read"), [(toml_draft, tomllib.loads), (json_text, json.loads)])
def test_a_draft_shows_every_character_of_a_name_and_keeps_it(write, read, tmp_path):
    content = draft({f"a{MARK}\x7f\u200d": "text", "é \u3000": "number"}, None)
    assert unseen(write(content)) == set()
    assert "é \u3000" in write(content)
    assert read(write(content)) == content
    schema = Schema({f"a{MARK}": Numeric()}, Bounded(name=MARK), vouched_by=MARK)
    path = tmp_path / ("s.toml" if write is toml_draft else "s.json")
    schema.to_file(path)
    assert unseen(path.read_text("utf-8")) == set()
    assert Schema.from_file(path) == schema


def test_spaces_that_break_no_line_are_shown_as_they_are():
    assert one_line(f"± {figure(5.8e-4)}") == f"± 5.8{TIMES}10⁻⁴"
    assert unseen(visible(MARK) + one_line(MARK)) == set()


# --- numbers ---------------------------------------------------------------------------------------------------------

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
