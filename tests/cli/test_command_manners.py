"""How commands behave, whatever they are asked: help, exit codes, refusals, JSON, colours."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys

import click
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import typer.main
from typer.testing import CliRunner

from dpforest import Budget, Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.cli.main import app, commands

pytestmark = pytest.mark.slow

N_ROWS = 400
COLOUR = re.compile(r"\x1b\[(?:[\d;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[\d;]*)?m")


def all_commands(command=None, path=()):
    """Every command with the words that lead to it, groups left out."""
    command = command or typer.main.get_command(commands)
    if not hasattr(command, "commands"):
        return {" ".join(path): command}
    found = {}
    for name, part in command.commands.items():
        found |= all_commands(part, (*path, name))
    return found


COMMANDS = all_commands()


def run(*arguments, **settings):
    return CliRunner().invoke(commands, [*map(str, arguments)], **settings)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table, a schema, a model, and things that commands refuse."""
    folder = tmp_path_factory.mktemp("made")
    generator = np.random.default_rng(0)
    age = generator.integers(0, 100, N_ROWS)
    columns = {"age": age, "city": generator.choice(["Oslo", "Rome"], N_ROWS), "ill": np.where(age > 50, "yes", "no")}
    table = pa.table(columns)
    pyarrow.csv.write_csv(table, folder / "t.csv")
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    features = {"age": Numeric(0, 100), "city": Categorical(["Oslo", "Rome"])}
    schema = Schema(features, Classes(["no", "yes"], name="ill"), one_row_per_person=True)
    schema.to_file(folder / "s.json")
    DPForestClassifier(schema, epsilon=4).fit(table.select(["age", "city"]), table.column("ill")).save(folder / "m.dpf")
    Budget.open(folder / "b.db", dataset="ward", epsilon=100.0)
    (folder / "empty").write_text("")
    (folder / "wide.csv").write_text("age,city,ill\n1,Oslo,no\n2,Rome,yes,more,cells\n")
    (folder / "other.csv").write_text("weight,town\n1,Oslo\n")
    (folder / "blind.csv").write_text("age,city\n1,Oslo\n")
    (folder / "twice.csv").write_text("age,city,ill,age\n1,Oslo,no,99\n")
    (folder / "bad.json").write_text('{"features": ')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "folder").mkdir()
    (folder / "draft.toml").write_text(
        'vouched_by = "?"\n[target]\nname = "ill"\nkind = "classes"\nlabels = "?"\n[features]\n'
    )
    return folder


@pytest.fixture(autouse=True)
def no_model_yet(made):
    """A fit never writes over a file, and many tests fit."""
    (made / "n.dpf").unlink(missing_ok=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_a_command_does_with_an_example(name):
    found = run(*name.split(), "--help")
    assert found.exit_code == 0
    assert f"Usage: root {name}" in found.stdout
    assert "Example:" in found.stdout
    assert "[bold]" not in found.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_the_help_are_commands_that_exist(name):
    examples = re.findall(r"Example: \[bold\](.*?)\[/bold\]", COMMANDS[name].help)
    assert examples
    for example in examples:
        words = [word for word in shlex.split(example) if not re.fullmatch(r"[A-Z_]+=\S+", word)]
        place = 1 + len(name.split())
        assert words[:place] == ["dpforest", *name.split()]
        # Raises on an unknown option, a missing one or a value of the wrong kind.
        COMMANDS[name].make_context(name, words[place:])


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_a_usage_error(name):
    found = run(*name.split(), "--no-such-option")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "--no-such-option" in found.stderr


REQUIRED = [name for name, command in COMMANDS.items() if any(part.required for part in command.params)]


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_argument_is_a_usage_error(name):
    found = run(*name.split())
    assert (found.exit_code, found.stdout) == (2, "")
    assert "Missing" in found.stderr


def test_commands_that_write_or_read_a_table_ask_for_it():
    assert {"fit", "predict", "evaluate", "report", "rules", "export", "plan", "schema draft", "schema check"} <= {*REQUIRED}


@pytest.mark.parametrize(
    "words", ["no-such-command", "schema no-such-command", "fit t.csv --epsilon many", "bench --jobs 0"]
)
def test_usage_errors_have_their_own_code(words):
    found = run(*words.split())
    assert (found.exit_code, found.stdout) == (2, "")
    assert not isinstance(found.exception, click.ClickException)


FIT = "fit t.csv --schema s.json --epsilon 1 --out n.dpf"
REFUSED = [
    "fit nope.csv --schema s.json --epsilon 1 --out n.dpf",
    "fit folder --schema s.json --epsilon 1 --out n.dpf",
    "fit empty --schema s.json --epsilon 1 --out n.dpf",
    "fit wide.csv --schema s.json --epsilon 1 --out n.dpf",
    "fit other.csv --schema s.json --epsilon 1 --out n.dpf",
    "fit blind.csv --schema s.json --epsilon 1 --out n.dpf",
    "fit twice.csv --schema s.json --epsilon 1 --out n.dpf",
    "fit m.dpf --schema s.json --epsilon 1 --out n.dpf",
    "fit t.csv --schema nope.json --epsilon 1 --out n.dpf",
    "fit t.csv --schema bad.json --epsilon 1 --out n.dpf",
    "fit t.csv --schema list.json --epsilon 1 --out n.dpf",
    "fit t.csv --schema draft.toml --epsilon 1 --out n.dpf",
    "fit t.csv --schema t.csv --epsilon 1 --out n.dpf",
    "fit t.csv --schema folder --epsilon 1 --out n.dpf",
    "fit t.csv --schema s.json --epsilon 0 --out n.dpf",
    "fit t.csv --schema s.json --epsilon -1 --out n.dpf",
    "fit t.csv --schema s.json --epsilon nan --out n.dpf",
    "fit t.csv --schema s.json --epsilon 1 --out folder",
    "fit t.csv --schema s.json --epsilon 1 --out no/such/n.dpf",
    f"fit t.csv --schema s.json --epsilon 1 --out {'n' * 300}.dpf",
    f"{FIT} --delta 2",
    f"{FIT} --recipe nope",
    f"{FIT} --variant nope",
    f"{FIT} --variant published",
    f"{FIT} --param depth",
    f"{FIT} --param nope=1",
    f"{FIT} --n-trees 0",
    f"{FIT} --max-depth -3",
    "predict t.csv t.csv --out p.csv",
    "predict empty t.csv --out p.csv",
    "predict folder t.csv --out p.csv",
    "predict nope.dpf t.csv --out p.csv",
    "predict m.dpf nope.csv --out p.csv",
    "predict m.dpf other.csv --out p.csv",
    "predict m.dpf wide.csv --out p.parquet",
    "predict m.dpf t.csv --out p.xlsx",
    "predict m.dpf t.csv --out no/such/p.csv",
    "evaluate m.dpf t.csv",
    "evaluate m.dpf t.csv --public --epsilon 1",
    "evaluate m.dpf t.csv --epsilon 0",
    "evaluate m.dpf t.csv --epsilon nan",
    "evaluate m.dpf blind.csv --public",
    "report m.dpf --out r.pdf",
    "report m.dpf --out no/such/r.html",
    "report nope.dpf --out r.html",
    "report m.dpf --out r.html --audit nope.json",
    "report m.dpf --out r.html --audit bad.json",
    "report m.dpf --out r.html --audit list.json",
    "report m.dpf --out r.html --about nope.toml",
    "report m.dpf --out r.html --about bad.json",
    "report m.dpf --out r.html --about list.json",
    "report m.dpf --out r.html --about draft.toml",
    "report m.dpf --out r.html --about t.csv",
    "report m.dpf --out r.html --budget b.db",
    "report m.dpf --out r.html --budget b.db::nobody",
    "report m.dpf --out r.html --budget nope.db::ward",
    "rules nope.dpf",
    "rules s.json",
    "rules m.dpf --out u.xlsx",
    "rules m.dpf --out no/such/u.csv",
    "export m.dpf --out e.pkl",
    "export m.dpf --out no/such/e.sql",
    "export nope.dpf --out e.sql",
    "export m.dpf --out e.sql --table ''",
    "recipes nope",
    "recipes consul-2020 --epsilon 0",
    "plan --schema s.json --epsilon 1",
    "plan --schema s.json --epsilon 1 --rows -5",
    "plan --schema s.json --epsilon -1 --rows 5",
    "plan --schema draft.toml --epsilon 1 --rows 5",
    "plan --schema s.json --epsilon 1 --rows 5 --max-depth 0",
    "schema draft nope.csv --out d.toml",
    "schema draft empty --out d.toml",
    "schema draft t.csv --out d.yaml",
    "schema draft t.csv --out s.json",
    "schema draft t.csv --target nope --out d.toml",
    "schema draft t.csv --out no/such/d.toml",
    "schema check nope.toml",
    "schema check bad.json",
    "schema check list.json",
    "schema check s.json --table nope.csv",
    "audit --variant nope",
    "audit --recipe nope",
    "audit --epsilon 0 --pairs 1 --trials 0",
    "audit --pairs -1 --trials 0",
    "audit --pairs 0 --trials -1",
    "audit --recipe fletcher-islam-2017 --pairs 1 --trials 0 --html no/such/a.html",
    "audit --recipe fletcher-islam-2017 --pairs 0 --trials 0 --attack nope",
    "bench papers --results no/such/file.jsonl",
    "demo --epsilon 0",
]


def call(monkeypatch, capsys, *words):
    """As the installed command runs: exit code, standard output, standard error."""
    monkeypatch.setattr(sys, "argv", ["dpforest", *words])
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            app()
    finally:
        signal.signal(signal.SIGTERM, handler)
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, said.err


@pytest.mark.parametrize("words", REFUSED)
def test_a_refusal_is_one_line_and_leaves_nothing(made, monkeypatch, capsys, words):
    monkeypatch.chdir(made)
    before = sorted(made.rglob("*"))
    code, out, err = call(monkeypatch, capsys, *shlex.split(words))
    assert code == 1
    assert out == ""
    assert err.startswith("Refused. ")
    assert err.count("\n") == 1
    assert err.rstrip()[-1] in ".'"
    assert sorted(made.rglob("*")) == before


def test_a_refusal_in_the_middle_of_a_long_table_is_one_line_too(made, tmp_path):
    # Longer than what is read at once, so that predictions of the first part are there already.
    (tmp_path / "late.csv").write_text("age,city,ill\n" + "12345678,Oslo,no\n" * 1_100_000 + "1,Oslo,no,more,cells\n")
    command = [sys.executable, "-m", "dpforest.cli", "predict", made / "m.dpf", "late.csv", "--out", "p.parquet"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("Refused. ")
    assert found.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["late.csv"]


# Each would put its result in the place of what it reads.
OVER_ITS_INPUT = {
    "predict m.dpf t.csv --out t.csv": "t.csv",
    "predict m.dpf t.parquet --out ../{here}/t.parquet": "t.parquet",
    "fit t.csv --schema s.json --epsilon 1 --out t.csv": "t.csv",
    "fit t.csv --schema s.json --epsilon 1 --out s.json": "s.json",
    "export m.json --out m.json": "m.json",
    "report m.json --out m.html": "m.json",
    "report m.dpf --out s.html --about s.json": "s.json",
    "rules m.json --out m.json": "m.json",
}


@pytest.mark.parametrize("words", OVER_ITS_INPUT)
def test_a_command_does_not_write_over_what_it_reads(made, tmp_path, monkeypatch, capsys, words):
    for name in ("t.csv", "t.parquet", "s.json", "m.dpf"):
        shutil.copy(made / name, tmp_path / name)
    shutil.copy(made / "m.dpf", tmp_path / "m.json")
    monkeypatch.chdir(tmp_path)
    before = (tmp_path / OVER_ITS_INPUT[words]).read_bytes()
    code, _, _ = call(monkeypatch, capsys, *words.format(here=tmp_path.name).split())
    assert (tmp_path / OVER_ITS_INPUT[words]).read_bytes() == before
    assert code == 1


def test_what_is_no_file_is_not_replaced_by_one(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(made)
    # Stands for /dev/null and its like.
    os.mkfifo(tmp_path / "pipe")
    code, _, err = call(monkeypatch, capsys, *FIT.replace("n.dpf", str(tmp_path / "pipe")).split())
    assert (tmp_path / "pipe").is_fifo()
    assert code == 1
    assert err.startswith("Refused. ")


def test_an_unforeseen_error_does_not_show_what_a_function_holds(made, tmp_path):
    program = """
import sys
import dpforest.records.tables

def fail(*arguments, **named):
    rows = ["Atlantis"] * 3
    raise RuntimeError("unforeseen")

dpforest.records.tables.open_reader = fail
from dpforest.cli.main import app
app()
"""
    words = ["fit", made / "t.csv", "--schema", made / "s.json", "--epsilon", "1", "--out", "n.dpf"]
    found = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert found.returncode not in (0, 2)
    assert "unforeseen" in found.stderr
    assert "Atlantis" not in found.stdout + found.stderr


def test_an_audit_is_refused_before_the_work_if_its_page_cannot_be_written(made, monkeypatch, capsys):
    monkeypatch.chdir(made)

    def run_audit(*arguments, **named):
        raise AssertionError("The audit ran, perhaps for hours, before it was refused.")

    monkeypatch.setattr("dpforest.audit.runner.audit", run_audit)
    assert call(monkeypatch, capsys, "audit", "--html", "no/such/a.html")[0] == 1


def test_a_schema_that_lacks_a_column_of_the_table_is_not_refused_but_the_other_way_is(made, monkeypatch, capsys):
    monkeypatch.chdir(made)
    code, _, err = call(monkeypatch, capsys, "schema", "check", "s.json", "--table", "blind.csv")
    assert code == 1
    assert err == "Refused. The table has no column 'ill'.\nIt was read by separator ',', encoding utf-8.\n"
    (made / "more.csv").write_text("age,city,ill,name\n1,Oslo,no,x\n")
    code, out, err = call(monkeypatch, capsys, "schema", "check", "s.json", "--table", "more.csv")
    (made / "more.csv").unlink()
    assert (code, err) == (0, "")
    assert "Not in the schema, so not read: name" in out


JSON = [
    "schema check s.json --table t.csv",
    "plan --schema s.json --epsilon 1 --rows 400",
    "plan --schema s.json --epsilon inf --rows 400",
    FIT,
    f"{FIT} --delta 1e-6",
    "fit t.csv --schema s.json --epsilon inf --out n.dpf",
    "fit t.csv --schema s.json --epsilon 1 --out n.dpf --recipe fletcher-islam-2017 --variant published",
    "evaluate m.dpf t.csv --public",
    "evaluate m.dpf t.csv --epsilon 1",
    "evaluate m.dpf t.csv --epsilon inf",
    "evaluate m.dpf t.csv --epsilon 1 --budget b.db::ward",
    "budget show b.db",
    "budget history b.db::ward",
    "ledger m.dpf",
    "rules m.dpf",
    "rules m.dpf --leaves",
    "recipes",
    "recipes consul-2020",
    "recipes consul-2020 --epsilon inf",
    "recipes show",
    "audit --recipe fletcher-islam-2017 --pairs 2 --trials 0",
]


def not_json(word):
    raise AssertionError(f"{word} is not a value of JSON.")


# An audit says on standard error how long it takes.
HOW_LONG = re.compile(r"^This takes [a-z0-9 ]+ on this machine\.\n$")


@pytest.mark.parametrize("words", JSON)
def test_json_is_all_that_is_printed(made, monkeypatch, words):
    monkeypatch.chdir(made)
    # In a narrow terminal too.
    found = run(*words.split(), "--json", env={"COLUMNS": "20"})
    assert (found.exit_code, HOW_LONG.sub("", found.stderr)) == (0, "")
    json.loads(found.stdout, parse_constant=not_json)


def test_every_command_with_json_is_tried():
    with_json = {name for name, command in COMMANDS.items() if any("--json" in part.opts for part in command.params)}
    tried = {name for name in with_json if any(words.startswith(name) for words in JSON)}
    # Benchmarks take minutes; their rows are tested beside them.
    assert not [name for name in with_json - tried if not name.startswith("bench ")]


PRINTED = [
    "schema check s.json --table t.csv",
    "plan --schema s.json --epsilon 1 --rows 400",
    FIT,
    "evaluate m.dpf t.csv --public",
    "report m.dpf --out r.html",
    "ledger m.dpf",
    "rules m.dpf",
    "recipes",
    "recipes consul-2020",
    "audit --recipe fletcher-islam-2017 --pairs 2 --trials 0",
    "budget show b.db::ward",
    "budget history b.db::ward",
    "budget verify b.db",
    "budget export b.db --out b.json",
    "export m.dpf --out e.sql",
    "predict m.dpf t.csv --out p.csv",
]


@pytest.mark.parametrize("words", PRINTED)
def test_output_that_is_not_for_a_terminal_has_no_codes_and_fits_80_columns(made, monkeypatch, words):
    monkeypatch.chdir(made)
    found = run(*words.split())
    assert (found.exit_code, HOW_LONG.sub("", found.stderr)) == (0, "")
    assert "\x1b" not in found.stdout
    framed = [line for line in found.stdout.splitlines() if line[:1] in "┏┃┡│├└"]
    assert all(len(line) <= 80 for line in framed)


def in_terminal(words, cwd, **environment):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "CI")}
    command = [sys.executable, "-m", "dpforest.cli", *words.split()]
    process = subprocess.Popen(
        command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, env=kept | {"TERM": "xterm-256color", **environment}
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


@pytest.mark.parametrize("words", ["fit --help", FIT, "fit nope.csv --schema s.json --epsilon 1 --out n.dpf", "nope"])
def test_no_color_is_respected_on_a_terminal(made, words):
    assert not COLOUR.search(in_terminal(words, made, NO_COLOR="1"))


def test_without_no_color_a_terminal_gets_colours(made):
    assert COLOUR.search(in_terminal("fit --help", made))


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
    "schema check s.json --table private.csv",
    "plan --schema s.json --epsilon 1 --rows 400",
    "fit private.csv --schema s.json --epsilon 1 --out n.dpf",
    "fit private.parquet --schema s.json --epsilon 1 --out n2.dpf --json",
    "fit private.csv --schema s.json --epsilon 1 --out n3.dpf --recipe fletcher-islam-2015-dpdf",
    "predict n.dpf private.csv --out p.csv",
    "evaluate n.dpf private.csv --epsilon 1",
    "report n.dpf --out r.html",
    "rules n.dpf",
    "rules n.dpf --out u.txt",
    "export n.dpf --out e.json",
    "export n.dpf --out e.sql",
    # Refused: the table is torn, or not what the schema says.
    "fit torn.csv --schema s.json --epsilon 1 --out n4.dpf",
    "fit swapped.parquet --schema s.json --epsilon 1 --out n4.dpf",
    "predict n.dpf torn.csv --out q.csv",
    "evaluate n.dpf torn.csv --public",
    "schema draft torn.csv --out torn.toml",
    "fit private.csv --schema wrong.json --epsilon 1 --out n4.dpf",
]


def test_nothing_that_is_said_or_written_holds_a_value_of_a_record(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = (made / "t.csv").read_text().partition("\n")[2].replace('"', "")
    write_private(tmp_path, rows + SECRET_ROW)
    (tmp_path / "torn.csv").write_text(HEAD + rows + SECRET_ROW.replace("perhaps", "perhaps,perhaps"))
    swapped = {"age": ["Atlantis"], "city": [987654.25], "ill": ["perhaps"]}
    pyarrow.parquet.write_table(pa.table(swapped), "swapped.parquet")
    schema = Schema.from_file(made / "s.json")
    schema.to_file("s.json")
    Schema({**schema.features, "height": Numeric(0, 1)}, schema.target).to_file("wrong.json")
    assert len(SECRETS.findall((tmp_path / "private.csv").read_text())) == 3
    said = {words: call(monkeypatch, capsys, *words.split()) for words in ON_PRIVATE}
    refused = ON_PRIVATE.index("fit torn.csv --schema s.json --epsilon 1 --out n4.dpf")
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
    "fit private.csv --schema s.json --epsilon 1 --out n.dpf",
    "fit private.parquet --schema s.json --epsilon 1 --out n2.dpf --recipe consul-2020",
    "fit private.csv --schema s.json --epsilon 1 --delta 1e-6 --out n3.dpf --json",
    "report n.dpf --out r.html",
    # One model for both: what is counted, and so how much is told, follows from the model.
    "evaluate released.dpf private.csv --epsilon 0.5 --json",
]


def shape(text):
    """A text with every number as one sign; where a released count is too small for a score, that is its noise."""
    return re.sub(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?<!,)|null", "#", text)


@pytest.mark.parametrize("title", NEIGHBOURS)
def test_neighbouring_tables_are_told_the_same(made, tmp_path, monkeypatch, capsys, title):
    said = []
    for place, rows in enumerate(NEIGHBOURS[title]):
        folder = tmp_path / str(place)
        folder.mkdir()
        monkeypatch.chdir(folder)
        # With a public number of rows the plan is the same each time; else it follows a noisy one.
        schema = Schema.from_file(made / "s.json")
        Schema(schema.features, schema.target, n_rows=50).to_file("s.json")
        write_private(folder, rows)
        shutil.copy(made / "m.dpf", "released.dpf")
        found = [call(monkeypatch, capsys, *words.split()) for words in TOLD]
        names = sorted(path.name for path in folder.iterdir())
        said.append(([(code, shape(out), shape(err)) for code, out, err in found], names))
    assert [code for code, _, _ in said[0][0]] == [0] * len(TOLD)
    assert said[0] == said[1]
