"""No cell of a CSV file is a formula, unless somebody asked for text as it is; numbers stay numbers."""

import csv
import re

import pandas as pd
import pytest
from tests.cli.command import done

from dpforest import Categorical, Classes, DPForestClassifier, Schema

RUN = ["=1+1", "+a", "-a", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "'=1", "''-a", "-1\n", "-1-1"]
KEPT = ["-1", "+49", "-1.5e-3", "plain", "'plain", "a=1", "-.5"]
TEXTS, COLUMN = [*RUN, *KEPT], "@place"
ESCAPE = re.compile("^'(?='*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model whose column, categories and labels begin as formulas do, and its table."""
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({COLUMN: TEXTS * 20, "-n": range(-9, 20 * len(TEXTS) - 9)})
    schema = Schema({COLUMN: Categorical(TEXTS)}, Classes(TEXTS))
    DPForestClassifier(schema, epsilon=90, recipe="jagannathan-2009", random_state=0).fit(table, TEXTS * 20).save("m.dpf")
    table.to_parquet("t.parquet")
    return table


def written(*words):
    """The rows of cells of the file that a command wrote."""
    done(*words, "--out", "out.csv")
    with open("out.csv", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("words", [("predict", "m.dpf", "t.parquet", "--id", COLUMN, "--id", "-n"), ("rules", "m.dpf")])
def test_no_cell_is_a_formula_and_what_was_escaped_can_be_read_back(folder, words):
    cells, raw = written(*words), written(*words, "--raw-text")
    flat = [text for row in cells for text in row]
    assert {text[0] for text in flat if text} & set("=@\t\r\n\uff1d") == set()
    assert all(re.fullmatch(r"[+-][0-9.]+(e-?[0-9]+)?", text) for text in flat if text[:1] in ("+", "-"))
    assert [[ESCAPE.sub("", text) for text in row] for row in cells] == raw
    assert raw != cells
    if words[0] == "predict":
        assert [row[0] for row in raw] == [COLUMN, *folder[COLUMN]]
        assert [row[1] for row in cells[1:]] == [str(number) for number in folder["-n"]]
        assert {row[2] for row in raw[1:]} <= set(TEXTS)
        assert {*KEPT} <= {row[0] for row in cells}
