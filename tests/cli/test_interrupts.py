"""A command that is interrupted leaves what was there before, and none writes over what was paid for."""

import errno
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli import command
from tests.cli.command import run, typed, write_people
from tests.torture.samples import classifier, rows

from dpforest import Budget, Classes, Schema, load_model
from dpforest.common import files
from dpforest.common.files import free_place, write_whole
from dpforest.errors import OutputError
from dpforest.privacy.gate import Gate

pytestmark = pytest.mark.slow

OLDER = b"what was there before"
AUDIT = ("audit", "--recipe", "fletcher-islam-2017", "--pairs", 1, "--trials", 0, "--html")
# Each command that writes, and the files that it writes.
WRITERS = {
    "schema draft .toml": (("schema", "draft", "t.csv", "--target", "ill", "--out", "d.toml"), ["d.toml"]),
    "schema draft .json": (("schema", "draft", "t.csv", "--target", "ill", "--out", "d.json"), ["d.json"]),
    "fit": (("fit", "t.csv", "--schema", "ill.json", "--epsilon", 2, "--out", "new.dpf"), ["new.dpf"]),
    "predict .csv": (("predict", "ill.dpf", "t.csv", "--out", "p.csv"), ["p.csv"]),
    "predict .parquet": (("predict", "ill.dpf", "t.csv", "--out", "p.parquet"), ["p.parquet"]),
    "report": (("report", "ill.dpf", "--out", "r.html"), ["r.html", "r.json"]),
    "export .onnx": (("export", "ill.dpf", "--out", "e.onnx"), ["e.onnx"]),
    "export .sql": (("export", "ill.dpf", "--out", "e.sql"), ["e.sql"]),
    "export .json": (("export", "ill.dpf", "--out", "e.json"), ["e.json"]),
    "rules .csv": (("rules", "ill.dpf", "--out", "u.csv"), ["u.csv"]),
    "rules .json": (("rules", "ill.dpf", "--out", "u.json"), ["u.json"]),
    "rules .txt": (("rules", "ill.dpf", "--out", "u.txt"), ["u.txt"]),
    "audit": ((*AUDIT, "a.html"), ["a.html"]),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_people()
    return tmp_path


# Drafts and models never take the place of a file.
NEVER_OVER = ("schema draft", "fit")


def older_files(title):
    """The files that a command would write over, with something in them."""
    older = [] if title.startswith(NEVER_OVER) else WRITERS[title][1]
    for name in older:
        Path(name).write_bytes(OLDER)
    return older


class Torn(io.FileIO):
    """A file that writes half of what it is first given, then is interrupted."""

    interruption = None

    def write(self, content):
        if self.interruption is None:
            return super().write(content)
        super().write(bytes(content)[: len(content) // 2])
        interruption, self.interruption = self.interruption, None
        raise interruption


def interrupt(monkeypatch, moment, nth=1):
    """Have the nth file interrupted at a moment, as signals do; gives a list that says whether it came to that."""
    met, calls = [], []
    # SIGINT is KeyboardInterrupt; SIGTERM is made SystemExit by the command.
    interruption = KeyboardInterrupt() if moment in ("half-written", "renamed") else SystemExit(143)
    place = {"opened": "fdopen", "half-written": "fdopen", "renamed": "replace"}[moment]

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) != nth:
            return getattr(os, place)(*arguments)
        met.append(moment)
        if moment != "half-written":
            raise interruption
        file = Torn(arguments[0], "wb")
        file.interruption = interruption
        return file

    monkeypatch.setattr(files, "os", SimpleNamespace(**(vars(os) | {place: stopped})))
    return met


def assert_nothing_else(folder, older, more=()):
    """What was there is as it was, and nothing new but what is named."""
    assert all((folder / name).read_bytes() == OLDER for name in older)
    made = {"t.csv", "t.parquet", "ill.json", "cost.toml", "ill.dpf", "cost.dpf"}
    assert {path.name for path in folder.iterdir()} == {*made, *older, *more}


BOOKS = ["new.dpf.charges.json"]


@pytest.mark.parametrize(
    ("moment", "is_there"), [("opened", True), ("half-written", True), ("half-written", False), ("renamed", True)]
)
@pytest.mark.parametrize("title", WRITERS)
def test_an_interrupted_command_leaves_what_was_there(folder, monkeypatch, title, moment, is_there):
    older = older_files(title) if is_there else []
    met = interrupt(monkeypatch, moment)
    found = run(*WRITERS[title][0])
    assert met == [moment]
    assert found.exit_code != 0
    assert "Traceback" not in found.output
    assert_nothing_else(folder, older, BOOKS if title == "fit" else ())


@pytest.mark.parametrize("moment", ["half-written", "renamed"])
def test_a_report_that_is_interrupted_between_its_files_leaves_both_whole(folder, monkeypatch, moment):
    (folder / "r.html").write_bytes(OLDER)
    met = interrupt(monkeypatch, moment, nth=2)
    assert run(*WRITERS["report"][0]).exit_code != 0
    assert met
    assert json.loads((folder / "r.json").read_text("utf-8"))["about"]
    assert_nothing_else(folder, ["r.html"], ["r.json"])


class Full(io.FileIO):
    """A file on a disk that has no room left."""

    def write(self, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("title", WRITERS)
def test_a_full_disk_is_a_refusal_that_leaves_what_was_there(folder, monkeypatch, title):
    older = older_files(title)
    monkeypatch.setattr(files, "os", SimpleNamespace(**(vars(os) | {"fdopen": Full})))
    ended = typed(*WRITERS[title][0])
    assert (ended.code, ended.out) == (1, "")
    *before, last = ended.err.splitlines()
    assert last.startswith("Refused. ")
    assert "No space left on device" in last
    # What is spent is spent, also where there is no room to write that down.
    assert len(before) == (title == "fit")
    assert all("epsilon = 2 was spent and stays spent" in line for line in before)
    assert_nothing_else(folder, older)


# Runs a command and sends a signal to itself at a call of a function.
SIGNALLED = """
import importlib, os, signal, sys
name, place, nth, *sys.argv[1:] = sys.argv[1:]
module, _, path = place.partition(":")
*owners, function = path.split(".")
owner = importlib.import_module(module)
for part in owners:
    owner = getattr(owner, part)
whole, calls = getattr(owner, function), []

def stopped(*arguments, **named):
    # Caches of compiled code are files too, and not meant.
    if function != "replace" or ".dpforest-" in str(arguments[0]):
        calls.append(1)
        if len(calls) == int(nth):
            os.kill(os.getpid(), getattr(signal, name))
    return whole(*arguments, **named)

setattr(owner, function, stopped)
from dpforest.cli.main import app
app()
"""
RENAMED, CHARGED = "dpforest.common.files:os.replace", "dpforest.privacy.gate:Gate.add_noise"
# Every writer is interrupted in the process of the test; that a signal does the same is seen by a few.
SIGNALS = [
    ("SIGTERM", RENAMED, "predict .parquet"),
    ("SIGINT", CHARGED, "fit"),
    ("SIGINT", RENAMED, "predict .csv"),
    ("SIGTERM", RENAMED, "audit"),
    *(pytest.param(*one, marks=pytest.mark.night) for one in (
        ("SIGTERM", RENAMED, "fit"), ("SIGINT", RENAMED, "report"), ("SIGTERM", RENAMED, "export .onnx"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "place", "title"), SIGNALS)
def test_a_signal_leaves_what_was_there(folder, name, place, title):
    older, nth = older_files(title), "2" if place == CHARGED else "1"
    words = [sys.executable, "-c", SIGNALLED, name, place, nth, *map(str, WRITERS[title][0])]
    found = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    # A shell can tell from the code which signal it was.
    assert found.returncode == (143 if name == "SIGTERM" else 130)
    assert "Traceback" not in found.stderr
    assert "Exception ignored" not in found.stderr
    assert_nothing_else(folder, older, BOOKS if title == "fit" else ())


# --- what was paid for -----------------------------------------------------------------------------------------------


PAID = "fit t.csv --schema s.json --epsilon 1 --budget b.db::ward --out"


def ended_with(*words):
    found = command.run(*" ".join(words).split())
    return found.exit_code, str(found.exception) + found.output


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = classifier(max_depth=1, n_trees=1)
    model.save("m.dpf")
    Schema(model.schema_.features, Classes(["no", "yes"], name="answer")).to_file("s.json")
    rows().assign(answer=["no", "yes"] * 25).to_csv("t.csv", index=False)
    Budget.open("b.db", dataset="ward", epsilon=2)
    return tmp_path


def spent():
    return Budget.open("b.db", dataset="ward").spent


@pytest.mark.parametrize("name", ["m.dpf", "b.db", "notes.txt", "link.dpf"])
def test_a_fit_never_writes_over_a_file_and_spends_nothing(shelf, name):
    Path("notes.txt").write_text("mine")
    Path("link.dpf").symlink_to("m.dpf")
    before = Path(name).read_bytes()
    code, said = ended_with(PAID, name)
    assert code == 1
    assert "Move it away, or choose another" in said
    assert Path(name).read_bytes() == before
    assert spent() == 0.0


def test_a_model_whose_place_was_taken_while_it_was_trained_is_kept_beside_it(shelf, monkeypatch):
    add_noise = Gate.add_noise

    def taken(*arguments, **named):
        Path("new.dpf").write_text("somebody else's")
        return add_noise(*arguments, **named)

    monkeypatch.setattr(Gate, "add_noise", taken)
    code, said = ended_with(PAID, "new.dpf")
    assert code == 0
    assert "new.2.dpf" in said
    assert Path("new.dpf").read_text() == "somebody else's"
    assert load_model("new.2.dpf").privacy_.epsilon == 1.0


@pytest.mark.parametrize("kept", ["other.dpf", "b.db"])
@pytest.mark.parametrize(
    "words",
    ["rules m.dpf --out X.txt", "export m.dpf --out X.json", "predict m.dpf t.csv --out X.csv", "report m.dpf --out X.html",
     "budget export b.db --out X.json"],
)  # fmt: skip
def test_no_model_or_budget_is_written_over_but_what_can_be_made_again(shelf, kept, words):
    classifier(max_depth=1, n_trees=1).save("other.dpf")
    place = words.rpartition(" ")[2]
    Path(kept).rename(place)
    before = Path(place).read_bytes()
    code, said = ended_with(words.replace("b.db", place) if kept == "b.db" else words)
    assert code == 1
    assert any(text in said for text in ("nothing else makes again", "is the file that is read"))
    assert Path(place).read_bytes() == before
    Path(place).write_text("can be made again")
    if kept != "b.db":
        assert ended_with(words)[0] == 0
        assert Path(place).read_text() != "can be made again"


def test_saving_in_python_replaces_a_model_but_no_budget(shelf):
    model = classifier(max_depth=1, n_trees=1)
    model.save("m.dpf")
    with pytest.raises(OutputError, match="is a budget"):
        model.save("b.db")
    assert spent() == 0.0


def test_books_of_a_stopped_run_stay_when_the_next_one_is_stopped(shelf, monkeypatch):
    def stopped(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpforest.estimators.DPForestClassifier.save", stopped)
    for n_runs in (1, 2):
        assert ended_with(PAID.replace("--epsilon 1", f"--epsilon {n_runs / 2}"), "new.dpf")[0] != 0
    books = [json.loads(Path(name).read_text())["epsilon"] for name in ("new.dpf.charges.json", "new.dpf.charges.2.json")]
    assert books == [0.5, 1.0]
    assert not Path("new.dpf").exists()


def test_the_mask_of_the_process_is_never_changed(tmp_path, monkeypatch):
    """A file that another thread makes at that moment would be open to everybody."""
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask is that of all threads"))
        write_whole(tmp_path / "a", b"text")
        with free_place(tmp_path / "a") as place:
            write_whole(place, b"more")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert place == tmp_path / "a.2"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a", place)] == [0o640] * 2


def test_a_place_that_is_not_written_to_is_given_back(tmp_path):
    with pytest.raises(KeyboardInterrupt), free_place(tmp_path / "a"):
        raise KeyboardInterrupt
    assert not any(tmp_path.iterdir())
