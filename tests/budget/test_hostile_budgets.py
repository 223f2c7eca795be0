"""Names of data sets can hold anything: the store, the commands, the report and the errors take them as they are."""

import json

import pytest
from tests.cli import hostile
from tests.torture import victims
from typer.testing import CliRunner

from dpforest import Budget, load_model
from dpforest.budget import Loss
from dpforest.cli.main import commands
from dpforest.errors import BudgetError, DPForestError

pytestmark = pytest.mark.slow

NAMES = [*(text for text in hostile.TEXTS if len(text) <= 1000), "half a pair \ud800"]


def run(*words):
    return CliRunner().invoke(commands, [*map(str, words)])


def assert_harmless(text):
    assert {character for character in text if character != "\n" and not character.isprintable()} == set()


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_hostile_name_of_a_data_set_is_only_a_name(name, tmp_path):
    path = tmp_path / "b.db"
    budget = Budget.open(path, dataset=name, epsilon=1.0)
    budget.settle(budget.reserve(name, outcomes=[Loss.pure(0.5)]), Loss.pure(0.5))
    assert Budget.open(path, dataset=name).history()[0]["what"] == name
    assert budget.verify()
    with pytest.raises(BudgetError) as caught:
        budget.reserve(name, outcomes=[Loss.pure(5.0)])
    assert_harmless(str(caught.value))
    assert_harmless(repr(budget))
    for words in (("show", path), ("history", f"{path}::{name}"), ("verify", path)):
        found = run("budget", *words)
        assert found.exit_code == 0, found.output
        assert_harmless(found.output)
    part = Budget.open(path, dataset="part", epsilon=1.0, belongs_to=name)
    with pytest.raises(BudgetError, match="belongs to") as caught:
        part.reserve(name, outcomes=[Loss.pure(0.6)])
    assert_harmless(str(caught.value))
    for words in (("show", path), ("history", f"{path}::{name}"), ("report", path, "--out", tmp_path / "page.html")):
        found = run("budget", *words)
        assert found.exit_code == 0, found.output
        assert_harmless(found.output)
    shown = json.loads(run("budget", "show", path, "--json").output)
    assert shown[0]["dataset"] == name


@pytest.mark.parametrize("name", ["", "x" * 10_001, 7, None, b"x", ("a",)], ids=repr)
def test_what_is_no_name_is_refused(name, tmp_path):
    with pytest.raises(DPForestError):
        Budget.open(tmp_path / "b.db", dataset=name, epsilon=1.0)


def test_a_model_and_its_report_hold_the_name_as_text_and_no_path(tmp_path):
    name = "</script><img src=x onerror=alert(2)> [bold]\x1b[31m"
    folder = tmp_path / "a folder of the machine"
    folder.mkdir()
    model = victims.fit(Budget.open(folder / "b.db", dataset=name, epsilon=1.0))
    model.save(tmp_path / "m.dpf")
    twin = load_model(tmp_path / "m.dpf")
    assert twin.budget is None
    assert twin.privacy_ == model.privacy_
    twin.save_report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<img src=x" not in page
    for written in ("m.dpf", "r.html", "r.json"):
        assert folder.name.encode() not in (tmp_path / written).read_bytes()
