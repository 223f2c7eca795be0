"""What was paid for is not written over: models, budgets, and the books of a run that was stopped."""

import json
import os
import stat
from pathlib import Path

import pytest
from tests.cli import command
from tests.torture.samples import classifier, rows

from dpforest import Budget, Classes, Schema, load_model
from dpforest.common.files import free_place, write_whole
from dpforest.errors import OutputError
from dpforest.privacy.gate import Gate

pytestmark = pytest.mark.slow

FIT = "fit t.csv --schema s.json --epsilon 1 --budget b.db::ward --out"


def run(*words):
    found = command.run(*" ".join(words).split())
    return found.exit_code, str(found.exception) + found.output


@pytest.fixture
def folder(tmp_path, monkeypatch):
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
def test_a_fit_never_writes_over_a_file_and_spends_nothing(folder, name):
    Path("notes.txt").write_text("mine")
    Path("link.dpf").symlink_to("m.dpf")
    before = Path(name).read_bytes()
    code, said = run(FIT, name)
    assert code == 1
    assert "Move it away, or choose another" in said
    assert Path(name).read_bytes() == before
    assert spent() == 0.0


def test_a_model_whose_place_was_taken_while_it_was_trained_is_kept_beside_it(folder, monkeypatch):
    add_noise = Gate.add_noise

    def taken(*arguments, **named):
        Path("new.dpf").write_text("somebody else's")
        return add_noise(*arguments, **named)

    monkeypatch.setattr(Gate, "add_noise", taken)
    code, said = run(FIT, "new.dpf")
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
def test_no_model_or_budget_is_written_over_but_what_can_be_made_again(folder, kept, words):
    classifier(max_depth=1, n_trees=1).save("other.dpf")
    place = words.rpartition(" ")[2]
    Path(kept).rename(place)
    before = Path(place).read_bytes()
    code, said = run(words.replace("b.db", place) if kept == "b.db" else words)
    assert code == 1
    assert any(text in said for text in ("nothing else makes again", "is the file that is read"))
    assert Path(place).read_bytes() == before
    Path(place).write_text("can be made again")
    if kept != "b.db":
        assert run(words)[0] == 0
        assert Path(place).read_text() != "can be made again"


def test_saving_in_python_replaces_a_model_but_no_budget(folder):
    model = classifier(max_depth=1, n_trees=1)
    model.save("m.dpf")
    with pytest.raises(OutputError, match="is a budget"):
        model.save("b.db")
    assert spent() == 0.0


def test_books_of_a_stopped_run_stay_when_the_next_one_is_stopped(folder, monkeypatch):
    def stopped(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpforest.estimators.DPForestClassifier.save", stopped)
    for n_runs in (1, 2):
        assert run(FIT.replace("--epsilon 1", f"--epsilon {n_runs / 2}"), "new.dpf")[0] != 0
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
