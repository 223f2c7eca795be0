"""The path of a newcomer: an empty folder, a table, and nothing but the command; at night that of a wheel just installed.

The walk through all commands is made once; each test looks at what was said and what lies in the folder.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import Ended, fill_in, typed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
N_ROWS = 2000
WARDS = ["Northern", "Southern", "Eastern"]
# What pip says on standard error where there is no way to the index; all else is a fault of the package.
NO_INDEX = ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError", "SSLError")
# What a person has to fill in, entry by entry of the draft.
FILLED = {"vouched_by": "T. Officer: the form of 2024", "one_row_per_person": True, "target.labels": ["no", "yes"]}
WALK = {
    "draft": "schema draft visits.csv --target ill",
    "check of the draft": "schema check visits.schema.toml",
    "fit of the draft": "fit visits.csv --schema visits.schema.toml --epsilon 2 --out early.dpf",
    "check": "schema check visits.schema.toml --table visits.csv",
    "plan": "plan --schema visits.schema.toml --epsilon 2 --rows 2000",
    "fit": "fit visits.csv --schema visits.schema.toml --epsilon 2 --out visits.dpf",
    "predict": "predict visits.dpf visits.csv --out predictions.csv",
    "evaluate": "evaluate visits.dpf visits.csv",
    "evaluate in public": "evaluate visits.dpf visits.csv --public --json",
    "evaluate for a price": "evaluate visits.dpf visits.csv --epsilon 0.5 --json",
    "report": "report visits.dpf --out report.html",
    "rules": "rules visits.dpf",
    "export to onnx": "export visits.dpf --out visits.onnx",
    "export to sql": "export visits.dpf --out visits.sql --table visits",
    "export to json": "export visits.dpf --out visits.release.json",
}
FILLED_BEFORE = "check"


def call(*command, cwd):
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "DPFOREST_DATA")}
    found = subprocess.run([*map(str, command)], cwd=cwd, env=kept, capture_output=True, text=True, timeout=600)
    return Ended(found.returncode, found.stdout, found.stderr)


def installed(folder):
    """Runs the command of a new environment that has the wheel and its dependencies; skips if there is no index."""
    environment = folder / "environment"
    steps = [
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT],
        [sys.executable, "-m", "venv", environment],
        [environment / "bin/python", "-m", "pip", "install", "--quiet", "--no-compile", "--retries", "1"],
    ]
    for step in steps:
        # The name of the wheel is known once it is built.
        wheels = [f"{next(folder.glob('*.whl'))}[onnx]"] if "install" in step else []
        ended = call(*step, *wheels, cwd=folder)
        if ended.code and any(word in ended.err for word in NO_INDEX):
            stop = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            stop("THE PACKAGE INDEX CANNOT BE REACHED: what a newcomer installs was not tested.")
        assert ended.code == 0, ended.err
    return partial(call, environment / "bin/dpforest")


def write_visits(path):
    """A table with missing cells, and a ward that is not in the questionnaire."""
    generator = np.random.default_rng(0)
    lines = ["age,ward,weight,ill"]
    for row in range(N_ROWS):
        age, ward = generator.integers(18, 100), generator.choice([*WARDS, "elsewhere"])
        ill = "yes" if generator.random() < (age - 18) / 82 else "no"
        weight = f"{generator.normal(75, 12):.1f}" if row % 10 else ""
        lines.append(f"{age if row % 7 else ''},{ward if row % 13 else ''},{weight},{ill}")
    path.write_text("\n".join(lines) + "\n")


def sharpen(path):
    """The draft filled in, and the wards listed, which need not be."""
    fill_in(path, **{name.rpartition(".")[2]: value for name, value in FILLED.items()})
    kind = '[features."ward"]\nkind = "categorical"\n'
    assert kind in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace(kind, f"{kind}categories = {json.dumps(WARDS)}\n"), "utf-8")


@pytest.fixture(scope="module", params=["here", pytest.param("installed", marks=pytest.mark.night)])
def folder(request, tmp_path_factory):
    return tmp_path_factory.mktemp(request.param)


@pytest.fixture(scope="module")
def said(folder):
    """How each command ended, and the names in the folder after it."""
    dpforest = installed(folder) if "installed" in folder.name else typed
    home, said = folder / "home", {}
    home.mkdir()
    write_visits(home / "visits.csv")
    for title, words in WALK.items():
        if title == FILLED_BEFORE:
            sharpen(home / "visits.schema.toml")
        said[title] = dpforest(*words.split(), cwd=home), {path.name for path in home.iterdir()}
    return said


def out(said, title):
    return said[title][0].out


def test_a_command_does_its_work_or_refuses_in_one_line(folder, said):
    refused = ("check of the draft", "fit of the draft", "evaluate")
    for title, (ended, _) in said.items():
        assert ended.code == (title in refused), (title, ended.err)
        assert ended.err.startswith("Refused. ") if title in refused else ended.err == ""
        assert "Traceback" not in ended.err
    assert all(way in said["evaluate"][0].err for way in ("--public", "--epsilon"))
    assert "No bounds: " in (folder / "home" / "report.html").read_text("utf-8")
    assert out(said, "evaluate") == ""


def test_what_a_command_says_it_wrote_is_all_that_it_wrote(said):
    written = {
        "draft": {"visits.schema.toml"},
        "fit": {"visits.dpf"},
        "predict": {"predictions.csv"},
        "report": {"report.html", "report.json"},
        "export to onnx": {"visits.onnx"},
        "export to sql": {"visits.sql"},
        "export to json": {"visits.release.json"},
    }
    before = {"visits.csv"}
    for title, (ended, names) in said.items():
        assert names - before == written.get(title, set()), title
        assert all(name in ended.out for name in written.get(title, ())), title
        before = names
