"""Scores on the command line: exact only if the table is said to be public, else charged."""

import json
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.cli.command import FEATURES, done, run, write_people

from dpforest import Budget, Classes, DPForestClassifier, Schema
from dpforest.errors import OutputError, ParameterError
from dpforest.evaluation import evaluate_privately
from dpforest.records.sources import arrow

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_people(600)
    return tmp_path


def evaluated(*arguments):
    """What an evaluation printed as JSON."""
    return json.loads(done("evaluate", *arguments, "--json"))


@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
@pytest.mark.parametrize(("model", "first"), [("ill.dpf", "accuracy"), ("cost.dpf", "mean absolute error")])
def test_public_and_charged_scores(folder, table, model, first):
    exact, noisy = (evaluated(model, table, *how) for how in (["--public"], ["--epsilon", 2]))
    assert (exact["n_rows"], exact["epsilon"], exact["ledger"]) == (600, 0, None)
    assert (noisy["epsilon"], noisy["ledger"]["spent"]) == (2, 2)
    assert exact["scores"][0]["name"] == noisy["scores"][0]["name"] == first
    # By Chernoff's bound the noise of at most 32 counts, of scale 1/2 each, adds up to 30 with a chance below
    # 2 * (1 - 0.64)**-32 * exp(-1.6 * 30) < 1e-6; no less moves a score of 600 records by a tenth.
    scale = 1 if model == "ill.dpf" else 60
    assert abs(exact["scores"][0]["value"] - noisy["scores"][0]["value"]) < 0.1 * scale
    assert "loses ε = 2 by" in " ".join(done("evaluate", model, table, "--epsilon", 2).split())
    assert "loses ε = ∞" in done("evaluate", model, table, "--epsilon", "inf")


def test_the_number_of_rows_has_a_band_and_scores_have_the_digits_of_theirs(folder):
    found = done("evaluate", "ill.dpf", "t.csv", "--epsilon", 1)
    # 1.96 standard deviations, each that of one count, for two classes in 8 to 16 bins.
    (band,) = re.findall(r"^\s?[\d,.]+ ± (\d+) rows +\n", found)
    assert 10 <= int(band) <= 15
    assert re.search(r"accuracy +│ [01]\.\d{3} ± 0\.0\d\d ", found)
    assert "recall of 'yes'" in found
    assert "The value without noise lies within its band (± or “a to b”) with a probability of about 95 %." in found
    assert re.search(r"accuracy +│ \d\.\d{4} ", done("evaluate", "ill.dpf", "t.csv", "--public"))


def test_rows_of_many_classes_are_not_counted_up_by_noise():
    # Noise is not seeded: of 200 bands at least 160 hold the truth, which fails with a chance below 1e-9 if each does so
    # with a chance of 0.93 (binomial tail).
    labels = [f"label {place}" for place in range(100)]
    X = pa.table({"age": [50.0] * 40, "city": ["Oslo"] * 40})
    model = DPForestClassifier(Schema(FEATURES, Classes(labels, name="ill")), epsilon=20).fit(X, labels[:1] * 40)
    found = [evaluate_privately(model, X, labels[:1] * 40, 1.0) for _ in range(200)]
    assert sum(abs(one.n_rows - 40) <= one.n_rows_margin for one in found) >= 160


def test_subgroups_a_comparison_and_a_threshold_cost_no_more(folder):
    asked = ["--epsilon", 2, "--by", "city", "--compare", "ill.dpf", "--threshold", 0.3]
    found = evaluated("ill.dpf", "t.csv", *asked)
    assert found["epsilon"] == 2
    assert [row["group"] for row in found["groups"]["rows"]] == ["Oslo", "Rome", "(other values)", "(missing)"]
    assert 0.3 in [row["threshold"] for row in found["thresholds"]]
    names = {score["name"]: score["value"] for score in found["comparison"]["scores"]}
    assert names["accuracy less that of the other model"] == pytest.approx(0, abs=0.3)
    shown = done("evaluate", "ill.dpf", "t.csv", *asked)
    for words in ("by city", "(missing)", "'yes' predicted above 0.3", "only this model is right", "loses ε = 2"):
        assert words in shown
    number = evaluated("cost.dpf", "t.parquet", "--public", "--by", "age=30,60")
    assert [row["group"] for row in number["groups"]["rows"]][:2] == ["under 30", "30 to under 60"]
    assert sum(row["n_rows"] for row in number["groups"]["rows"]) == 600


@pytest.mark.parametrize(
    "wrong",
    ["--by nobody", "--by age=60,30", "--by city=1", "--by city --by age=30", "--compare cost.dpf", "--threshold 2",
     "--out page.txt", "--out t.csv", "--out nowhere/page.html", "--groups person", "--max-rows-per-person 2"],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_before_anything_is_charged(folder, wrong):
    Budget.open("b.db", "ward", epsilon=3.0)
    refused = run("evaluate", "ill.dpf", "t.csv", "--epsilon", 1, "--budget", "b.db::ward", *wrong.split()).exception
    assert isinstance(refused, ParameterError | OutputError)
    assert Budget.open("b.db", "ward").position()["spent"] == 0


@pytest.mark.parametrize("table", ["t.csv", "t.parquet", "duckdb:///t.ddb::visits"])
def test_of_each_person_at_most_so_many_rows_are_counted_and_persons_pay(folder, monkeypatch, table):
    monkeypatch.setattr(arrow, "PART_ROWS", 16)
    with duckdb.connect("t.ddb") as connection:
        connection.execute("CREATE TABLE visits AS SELECT * FROM 't.parquet'")
    people = ["--groups", "person", "--max-rows-per-person", 2]
    assert evaluated("ill.dpf", table, "--epsilon", "inf", *people)["n_rows"] == 400
    Budget.open("b.db", "ward", epsilon=3.0, unit="person")
    said = done("evaluate", "ill.dpf", table, "--epsilon", 2, *people, "--budget", "b.db::ward")
    assert Budget.open("b.db", "ward").spent == 2
    assert "Each person in this table loses ε = 2 by these scores" in " ".join(said.split())
    refused = run("evaluate", "ill.dpf", table, "--epsilon", 1, "--budget", "b.db::ward").exception
    assert "To protect persons, set groups and max_rows_per_person" in str(refused)


def test_a_page_and_its_twin_are_written_and_the_report_shows_it(folder):
    assert "Page: page.html" in done("evaluate", "ill.dpf", "t.csv", "--epsilon", 2, "--by", "city", "--out", "page.html")
    page, twin = Path("page.html").read_text("utf-8"), json.loads(Path("page.json").read_text("utf-8"))
    assert "How good is the model?" in page
    assert "http" not in re.sub(r'<meta http-equiv="[^"]*"', "", page)
    assert twin["model"] in page
    done("report", "ill.dpf", "--out", "r.html", "--evaluation", "page.json")
    report = json.loads(Path("r.json").read_text("utf-8"))
    assert report["evaluation"] == twin
    assert report["deployment"]["evaluation"]["utility"]["scores"] == twin["scores"]
    assert "ROC curve" in Path("r.html").read_text("utf-8")
