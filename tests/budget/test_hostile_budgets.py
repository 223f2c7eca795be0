"""Names of data sets can hold anything: the store, the commands, the report and the errors take them as they are."""

import json

import pytest
from tests.cli import hostile
from tests.cli.command import done
from tests.cli.hostile import assert_harmless
from tests.torture import victims

from dpforest import Budget, load_model
from dpforest.budget import Loss
from dpforest.errors import BudgetError

pytestmark = pytest.mark.slow

NAMES = [*(text for text in hostile.TEXTS if len(text) <= 1000), "half a pair \ud800", "nothing\0here", "\U0001f332" * 200]


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
        assert_harmless(done("budget", *words))
    part = Budget.open(path, dataset="part", epsilon=1.0, belongs_to=name)
    with pytest.raises(BudgetError, match="belongs to") as caught:
        part.reserve(name, outcomes=[Loss.pure(0.6)])
    assert_harmless(str(caught.value))
    for words in (("show", path), ("history", f"{path}::{name}"), ("report", path, "--out", tmp_path / "page.html")):
        assert_harmless(done("budget", *words))
    shown = json.loads(done("budget", "show", path, "--json"))
    assert shown[0]["dataset"] == name


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
