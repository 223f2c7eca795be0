"""dpforest report: what is said by options and by a file, and the budget."""

import json

import pytest
from test_commands import folder, run

from dpforest import Budget
from dpforest.show.report.about import FIELDS

pytestmark = pytest.mark.slow

__all__ = ["folder"]

ABOUT = """
dataset = "Ward 7 admissions"
dataset_version = 2024-06-30
purpose = "To plan beds"
access = "Staff of the hospital"
"""


@pytest.fixture
def trained(folder):
    """The folder with a model that was charged to a budget."""
    Budget.open(folder / "b.db", "ward-7", epsilon=3.0)
    words = ("fit", "t.csv", "--schema", "ill.schema.json", "--epsilon", 1, "--budget", "b.db::ward-7", "--out", "m.dpf")
    assert run(*words, cwd=folder).returncode == 0
    return folder


def report(folder, *options):
    """The twin of a report that was written with these options."""
    done = run("report", "m.dpf", "--out", "r.html", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "r.json").read_text())


def test_options_say_what_the_report_is_about(trained):
    said = {"dataset": "Ward 7", "dataset_version": "v2", "purpose": "To plan <b>beds</b>", "contact": "privacy@example.org"}
    options = [word for name, text in said.items() for word in (f"--{name.replace('_', '-')}", text)]
    twin = report(trained, *options)
    assert {name: text for name, text in twin["about"].items() if text} == said
    page = (trained / "r.html").read_text("utf-8")
    assert "To plan &lt;b&gt;beds&lt;/b&gt;" in page


@pytest.mark.parametrize("ending", [".toml", ".json"])
def test_a_file_says_the_same_and_options_win(trained, ending):
    text = ABOUT
    if ending == ".json":
        text = json.dumps({"dataset": "Ward 7 admissions", "dataset_version": "2024-06-30", "purpose": "To plan beds",
                           "access": "Staff of the hospital"})  # fmt: skip
    (trained / f"about{ending}").write_text(text)
    twin = report(trained, "--about", f"about{ending}", "--purpose", "To plan staff")
    assert twin["about"]["dataset_version"] == "2024-06-30"
    assert twin["about"]["purpose"] == "To plan staff"
    assert twin["deployment"]["deployment"]["access"] == "Staff of the hospital"
    assert "deployment.contact" in twin["deployment"]["to_be_filled_in"]
    assert "deployment.access" not in twin["deployment"]["to_be_filled_in"]


def test_an_unknown_entry_is_refused_with_the_list_of_known_ones(trained):
    (trained / "about.toml").write_text('purpos = "To plan beds"\n')
    done = run("report", "m.dpf", "--out", "r.html", "--about", "about.toml", cwd=trained)
    assert done.returncode == 1
    words = " ".join(done.stderr.split())
    assert "about has no field 'purpos'" in words
    assert all(name in words for name in FIELDS)
    assert not (trained / "r.html").exists()


def test_the_budget_is_shown_with_this_model_in_it_and_stays_as_it_is(trained):
    before = (trained / "b.db").read_bytes()
    twin = report(trained, "--budget", "b.db::ward-7")
    assert (twin["budget"]["spent"], twin["budget"]["left"]) == (1.0, 2.0)
    assert [release["is_alike"] for release in twin["budget"]["releases"]] == [True]
    assert (trained / "b.db").read_bytes() == before


def test_the_twin_cannot_take_the_place_of_the_description(trained):
    (trained / "r.json").write_text('{"purpose": "To plan beds"}')
    done = run("report", "m.dpf", "--out", "r.html", "--about", "r.json", cwd=trained)
    assert done.returncode == 1
    assert json.loads((trained / "r.json").read_text()) == {"purpose": "To plan beds"}
