"""How commands behave, whatever they are asked: help, exit codes, refusals, JSON, colours."""

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys

import click
import pyarrow as pa
import pyarrow.parquet
import pytest
import typer.main
from tests.cli.command import ILL, model, people, run, typed, write_people

from dpforest import Budget, Numeric, Schema
from dpforest.cli.main import commands

pytestmark = pytest.mark.slow

COLOUR = re.compile(r"\x1b\[(?:[\d;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[\d;]*)?m")


def all_commands(command=None, path=()):
    """Every command with the words that lead to it, groups and old names left out."""
    command = command or typer.main.get_command(commands)
    if not hasattr(command, "commands"):
        return {} if command.hidden else {" ".join(path): command}
    found = {}
    for name, part in command.commands.items():
        found |= all_commands(part, (*path, name))
    return found


COMMANDS = all_commands()
DRAFT = 'vouched_by = "?"\n[target]\nname = "ill"\nkind = "classes"\nlabels = "?"\n[features]\n'
# What commands refuse, beside the people and a budget.
SPOILT = {
    "empty": "",
    "wide.csv": "age,city,ill\n1,Oslo,no\n2,Rome,yes,more,cells\n",
    "other.csv": "weight,town\n1,Oslo\n",
    "blind.csv": "age,city\n1,Oslo\n",
    "twice.csv": "age,city,ill,age\n1,Oslo,no,99\n",
    "none.csv": "age,city,ill\n",
    "bad.json": '{"features": ',
    "list.json": "[1, 2]",
    "draft.toml": DRAFT,
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A folder with people, schemas and models, and things that commands refuse."""
    monkeypatch.chdir(tmp_path)
    write_people()
    Budget.open("b.db", dataset="ward", epsilon=100.0)
    for name, text in SPOILT.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_a_command_does_with_examples_that_exist(name):
    found = run(*name.split(), "--help")
    assert found.exit_code == 0
    assert f"Usage: root {name}" in found.stdout
    assert "Example:" in found.stdout
    assert "[bold]" not in found.stdout
    examples = re.findall(r"Example: \[bold\](.*?)\[/bold\]", COMMANDS[name].help)
    assert examples
    for example in examples:
        words = [word for word in shlex.split(example) if not re.fullmatch(r"[A-Z_]+=\S+", word)]
        place = 1 + len(name.split())
        assert words[:place] == ["dpforest", *name.split()]
        # Raises on an unknown option, a missing one or a value of the wrong kind.
        COMMANDS[name].make_context(name, words[place:])


REQUIRED = [name for name, command in COMMANDS.items() if any(part.required for part in command.params)]


def test_commands_that_write_or_read_a_table_ask_for_it():
    assert {"fit", "predict", "evaluate", "report", "rules", "export", "plan", "schema draft", "schema check"} <= {*REQUIRED}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *((f"{name} --no-such-option", "--no-such-option") for name in COMMANDS),
        *((name, "Missing") for name in REQUIRED),
        ("no-such-command", "no-such-command"),
        ("schema no-such-command", "no-such-command"),
        ("fit t.csv --schema s --out m --epsilon many", "--epsilon"),
    ],
)
def test_wrong_usage_has_a_code_of_its_own(words, said):
    found = run(*words.split())
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in found.stderr
    assert not isinstance(found.exception, click.ClickException)


def each(pattern, *words):
    return [pattern.format(word) for word in words]


FIT = "fit t.csv --schema ill.json --epsilon 1 --out n.dpf"
REFUSED = [
    *each("fit {} --schema ill.json --epsilon 1 --out n.dpf", "nope.csv", "folder", "empty", "ill.dpf"),
    *each("fit {}.csv --schema ill.json --epsilon 1 --out n.dpf", "wide", "other", "blind", "twice"),
    *each("fit t.csv --schema {} --epsilon 1 --out n.dpf", "nope.json", "bad.json", "list.json"),
    *each("fit t.csv --schema {} --epsilon 1 --out n.dpf", "draft.toml", "t.csv", "folder"),
    *each("fit t.csv --schema ill.json --epsilon {} --out n.dpf", "0", "-1", "nan"),
    *each("fit t.csv --schema ill.json --epsilon 1 --out {}", "folder", "no/such/n.dpf", f"{'n' * 300}.dpf"),
    *each(FIT + " {}", "--delta 2", "--recipe nope", "--variant nope", "--variant published", "--param depth"),
    *each(FIT + " {}", "--param nope=1", "--n-trees 0", "--max-depth -3"),
    *each("predict {} t.csv --out p.csv", "t.csv", "empty", "folder", "nope.dpf"),
    *each("predict ill.dpf {} --out p.csv", "nope.csv", "other.csv", "none.csv"),
    "predict cost.dpf none.csv --out p.parquet",
    "predict ill.dpf wide.csv --out p.parquet",
    *each("predict ill.dpf t.csv --out {}", "p.xlsx", "no/such/p.csv"),
    *each("evaluate ill.dpf t.csv {}", "", "--public --epsilon 1", "--epsilon 0", "--epsilon nan"),
    "evaluate ill.dpf blind.csv --public",
    *each("report ill.dpf --out {}", "r.pdf", "no/such/r.html"),
    "report nope.dpf --out r.html",
    *each("report ill.dpf --out r.html --audit {}", "nope.json", "bad.json", "list.json"),
    *each("report ill.dpf --out r.html --about {}", "nope.toml", "bad.json", "list.json", "draft.toml", "t.csv"),
    *each("report ill.dpf --out r.html --budget {}", "b.db", "b.db::nobody", "nope.db::ward"),
    *each("rules {}", "nope.dpf", "ill.json", "ill.dpf --out u.xlsx", "ill.dpf --out no/such/u.csv"),
    *each("export ill.dpf --out {}", "e.pkl", "no/such/e.sql", "e.sql --table ''"),
    "export nope.dpf --out e.sql",
    *each("recipes {}", "nope", "consul-2020 --epsilon 0"),
    *each("plan --schema ill.json --epsilon 1 {}", "", "--rows -5", "--rows 5 --max-depth 0"),
    "plan --schema ill.json --epsilon -1 --rows 5",
    "plan --schema draft.toml --epsilon 1 --rows 5",
    *each("schema draft {} --out d.toml", "nope.csv", "empty", "t.csv --target nope"),
    *each("schema draft t.csv --out {}", "d.yaml", "ill.json", "no/such/d.toml"),
    *each("schema check {}", "nope.toml", "bad.json", "list.json", "ill.json --table nope.csv"),
    *each("audit {}", "--variant nope", "--recipe nope", "--epsilon 0 --pairs 1 --trials 0"),
    *each("audit --pairs {}", "-1 --trials 0", "0 --trials -1"),
    "audit --recipe fletcher-islam-2017 --pairs 1 --trials 0 --html no/such/a.html",
    "audit --recipe fletcher-islam-2017 --pairs 0 --trials 0 --attack nope",
    *each("budget create b.db::bed --epsilon 2 {}", "--belongs-to nobody", "--belongs-to ward --unit person"),
    *each("budget create {}", "b.db::ward --epsilon 100", "b.db --epsilon 2", "other.db::a --epsilon inf"),
    *each("budget report {}", "b.db --out b.json", "none.db --out page.html"),
    *each(
        "budget {}", "show none.db", "show none.db::a", "verify none.db", "history b.db::nobody", "export b.db --out b.db"
    ),
    "demo --epsilon 0",
]


@pytest.mark.parametrize("words", REFUSED)
def test_a_refusal_is_one_line_and_leaves_nothing(made, words):
    before = sorted(made.rglob("*"))
    ended = typed(*shlex.split(words))
    assert (ended.code, ended.out) == (1, "")
    assert re.fullmatch(r"Refused\. .*[.']\n", ended.err)
    assert sorted(made.rglob("*")) == before


# Each would put its result in the place of what it reads.
OVER_ITS_INPUT = {
    "predict ill.dpf t.csv --out t.csv": "t.csv",
    "predict ill.dpf t.parquet --out ../{here}/t.parquet": "t.parquet",
    "export m.json --out m.json": "m.json",
    "report m.json --out m.html": "m.json",
    "report ill.dpf --out ill.html --about ill.json": "ill.json",
    "rules m.json --out m.json": "m.json",
}


@pytest.mark.parametrize("words", OVER_ITS_INPUT)
def test_a_command_does_not_write_over_what_it_reads(made, words):
    shutil.copy("ill.dpf", "m.json")
    before = (made / OVER_ITS_INPUT[words]).read_bytes()
    assert typed(*words.format(here=made.name).split()).code == 1
    assert (made / OVER_ITS_INPUT[words]).read_bytes() == before


def test_what_is_no_file_is_not_replaced_by_one(made):
    # Stands for /dev/null and its like.
    os.mkfifo("pipe")
    ended = typed(*FIT.replace("n.dpf", "pipe").split())
    assert (made / "pipe").is_fifo()
    assert ended.code == 1
    assert ended.err.startswith("Refused. ")


def test_an_unforeseen_error_does_not_show_what_a_function_holds(made):
    program = """
import sys
import dpforest.records.doors

def fail(*arguments, **named):
    rows = ["Atlantis"] * 3
    raise RuntimeError("unforeseen")

dpforest.records.doors.open_source = fail
from dpforest.cli.main import app
app()
"""
    found = subprocess.run([sys.executable, "-c", program, *FIT.split()], capture_output=True, text=True, timeout=120)
    assert found.returncode not in (0, 2)
    assert "unforeseen" in found.stderr
    assert "Atlantis" not in found.stdout + found.stderr


def test_an_audit_is_refused_before_the_work_if_its_page_cannot_be_written(made, monkeypatch):
    def run_audit(*arguments, **named):
        raise AssertionError("The audit ran, perhaps for hours, before it was refused.")

    monkeypatch.setattr("dpforest.audit.runner.audit", run_audit)
    assert typed("audit", "--html", "no/such/a.html").code == 1


JSON = [
    "schema check ill.json --table t.csv",
    *each("plan --schema ill.json --epsilon {} --rows 400", 1, "inf"),
    FIT,
    f"{FIT} --delta 1e-6",
    "fit t.csv --schema ill.json --epsilon inf --out n.dpf",
    f"{FIT} --recipe fletcher-islam-2017 --variant published",
    *each("evaluate ill.dpf t.csv {}", "--public", "--epsilon 1", "--epsilon inf", "--epsilon 1 --budget b.db::ward"),
    "budget show b.db",
    "budget history b.db::ward",
    "ledger ill.dpf",
    *each("rules ill.dpf {}", "", "--leaves"),
    *each("recipes {}", "", "consul-2020", "consul-2020 --epsilon inf", "show"),
    "audit --recipe fletcher-islam-2017 --pairs 2 --trials 0",
]


def not_json(word):
    raise AssertionError(f"{word} is not a value of JSON.")


@pytest.mark.parametrize("words", JSON)
def test_json_is_all_that_is_printed(made, words):
    # In a narrow terminal too.
    found = run(*words.split(), "--json", env={"COLUMNS": "20"})
    assert (found.exit_code, found.stderr) == (0, "")
    json.loads(found.stdout, parse_constant=not_json)


def test_every_command_with_json_is_tried():
    with_json = {name for name, command in COMMANDS.items() if any("--json" in part.opts for part in command.params)}
    tried = {name for name in with_json if any(words.startswith(name) for words in JSON)}
    assert with_json == tried


PRINTED = [
    *(words for words in JSON if "inf" not in words and "published" not in words),
    *each("budget {}", "verify b.db", "export b.db --out b.json"),
    "report ill.dpf --out r.html",
    "export ill.dpf --out e.sql",
    "predict ill.dpf t.csv --out p.csv",
]


@pytest.mark.parametrize("words", PRINTED)
def test_output_that_is_not_for_a_terminal_has_no_codes_and_fits_80_columns(made, words):
    found = run(*words.split())
    assert (found.exit_code, found.stderr) == (0, "")
    assert "\x1b" not in found.stdout
    framed = [line for line in found.stdout.splitlines() if line[:1] in "┏┃┡│├└"]
    assert all(len(line) <= 80 for line in framed)


def in_terminal(words, **environment):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "CI")}
    command = [sys.executable, "-m", "dpforest.cli", *words.split()]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=kept | {"TERM": "xterm-256color", **environment}
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # how the end of a terminal shows
            break
        if not part:
            break
        text += part
    os.close(ours)
    process.wait(timeout=60)
    return text.decode("utf-8", "replace")


@pytest.mark.parametrize("words", ["fit --help", FIT, REFUSED[0], "nope"])
def test_no_color_is_respected_on_a_terminal(made, words):
    assert not COLOUR.search(in_terminal(words, NO_COLOR="1"))


def test_without_no_color_a_terminal_gets_colours(made):
    assert COLOUR.search(in_terminal("fit --help"))


# Values of one record that no schema lists; each in the forms that a program may print it in.
SECRETS = re.compile(r"Atlantis|perhaps|(?<![\d.])987[,_]?654|(?<![\d.])9\.8\d*e\+?0?5")
SECRET_ROW = "987654.25,Atlantis,perhaps\n"
HEAD = "age,city,ill\n"


def write_private(folder, rows):
    """Rows as CSV and as Parquet."""
    (folder / "private.csv").write_text(HEAD + rows)
    cells = [row.split(",") for row in rows.splitlines()]
    ages, cities, answers = zip(*cells, strict=True) if cells else ((), (), ())
    columns = {"age": pa.array([float(age) if age else None for age in ages], pa.float64())}
    columns |= {"city": pa.array(cities, pa.string()), "ill": pa.array(answers, pa.string())}
    pyarrow.parquet.write_table(pa.table(columns), folder / "private.parquet")


def read_all(folder):
    """Every text in a folder, but for tables and model files, whose arrays are no text."""
    kept = [path for path in folder.iterdir() if path.suffix in (".toml", ".json", ".html", ".sql", ".txt", ".csv")]
    return {path.name: path.read_text("utf-8") for path in kept if path.name not in ("private.csv", "torn.csv")}


ON_PRIVATE = [
    "schema draft private.csv --target ill --out d.toml",
    "schema draft private.parquet --target ill --out d.json",
    "schema check ill.json --table private.csv",
    "plan --schema ill.json --epsilon 1 --rows 400",
    "fit private.csv --schema ill.json --epsilon 1 --out n.dpf",
    "fit private.parquet --schema ill.json --epsilon 1 --out n2.dpf --json",
    "fit private.csv --schema ill.json --epsilon 1 --out n3.dpf --recipe fletcher-islam-2015-dpdf",
    "predict n.dpf private.csv --out p.csv",
    "evaluate n.dpf private.csv --epsilon 1",
    "report n.dpf --out r.html",
    "rules n.dpf",
    "rules n.dpf --out u.txt",
    "export n.dpf --out e.json",
    "export n.dpf --out e.sql",
    # Refused: the table is torn, or not what the schema says.
    "fit torn.csv --schema ill.json --epsilon 1 --out n4.dpf",
    "fit swapped.parquet --schema ill.json --epsilon 1 --out n4.dpf",
    "predict n.dpf torn.csv --out q.csv",
    "evaluate n.dpf torn.csv --public",
    "schema draft torn.csv --out torn.toml",
    "fit private.csv --schema wrong.json --epsilon 1 --out n4.dpf",
]


def test_nothing_that_is_said_or_written_holds_a_value_of_a_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{row['age']},{row['city']},{row['ill']}\n" for row in people().to_pylist())
    write_private(tmp_path, rows + SECRET_ROW)
    (tmp_path / "torn.csv").write_text(HEAD + rows + SECRET_ROW.replace("perhaps", "perhaps,perhaps"))
    swapped = {"age": ["Atlantis"], "city": [987654.25], "ill": ["perhaps"]}
    pyarrow.parquet.write_table(pa.table(swapped), "swapped.parquet")
    ILL.to_file("ill.json")
    Schema({**ILL.features, "height": Numeric(0, 1)}, ILL.target).to_file("wrong.json")
    assert len(SECRETS.findall((tmp_path / "private.csv").read_text())) == 3
    said = {words: typed(*words.split()) for words in ON_PRIVATE}
    refused = ON_PRIVATE.index("fit torn.csv --schema ill.json --epsilon 1 --out n4.dpf")
    assert [code for code, _, _ in said.values()] == [0] * refused + [1] * (len(ON_PRIVATE) - refused)
    texts = {words: out + err for words, (_, out, err) in said.items()} | read_all(tmp_path)
    assert {"d.toml", "d.json", "r.html", "r.json", "u.txt", "e.json", "e.sql"} <= {*texts}
    assert [(where, SECRETS.findall(text)) for where, text in texts.items() if SECRETS.search(text)] == []


NEIGHBOURS = {
    "no record and one": ("", "30,Oslo,yes\n"),
    "no record and one of which nothing is listed": ("", SECRET_ROW),
    "a record that nothing is known of": ("30,Oslo,yes\n" * 50, "30,Oslo,yes\n" * 50 + ",,\n"),
    "a record that no other is like": ("30,Oslo,yes\n" * 50, "30,Oslo,yes\n" * 50 + SECRET_ROW),
    "the only record of a class": ("30,Oslo,yes\n" * 50, "30,Oslo,yes\n" * 50 + "31,Rome,no\n"),
}
TOLD = [
    "schema draft private.parquet --target ill --out d.json",
    "fit private.csv --schema ill.json --epsilon 1 --out n.dpf",
    "fit private.parquet --schema ill.json --epsilon 1 --out n2.dpf --recipe consul-2020",
    "fit private.csv --schema ill.json --epsilon 1 --delta 1e-6 --out n3.dpf --json",
    "report n.dpf --out r.html",
    # One model for both: what is counted, and so how much is told, follows from the model.
    "evaluate released.dpf private.csv --epsilon 0.5 --json",
]


def shape(text):
    """A text with every number as one sign; where a released count is too small for a score, that is its noise."""
    return re.sub(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?<!,)|null", "#", text)


@pytest.mark.parametrize("title", NEIGHBOURS)
def test_neighbouring_tables_are_told_the_same(tmp_path, monkeypatch, title):
    said = []
    for place, rows in enumerate(NEIGHBOURS[title]):
        folder = tmp_path / str(place)
        folder.mkdir()
        monkeypatch.chdir(folder)
        # With a public number of rows the plan is the same each time; else it follows a noisy one.
        Schema(ILL.features, ILL.target, n_rows=50).to_file("ill.json")
        write_private(folder, rows)
        model("ill").save("released.dpf")
        found = [typed(*words.split()) for words in TOLD]
        names = sorted(path.name for path in folder.iterdir())
        said.append(([(code, shape(out), shape(err)) for code, out, err in found], names))
    assert [code for code, _, _ in said[0][0]] == [0] * len(TOLD)
    assert said[0] == said[1]
