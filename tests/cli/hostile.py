"""Tables whose names, categories and labels are meant to break whatever shows, writes or reads them."""

import numpy as np
import pyarrow as pa

from dpforest import Bounded, Categorical, Classes, Numeric, Schema

OVERRIDE, ESCAPE = "\u202e", "\x1b"
LONG = "long <&'\" " * 1000  # 10,000 characters
TEXTS = [
    'double " quote', "single ' quote", "back ` tick", "back \\ slash \\n \\", "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>", "<!--<script>", "line\nbreak", "return\rhome", "both\r\nof them", "tab\there",
    "emoji \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f3b2", "'; DROP TABLE records; --", "{{7*7}} {% raw %}",
    "$x$ \\frac{1}{2", "%s %d %(name)s {0}", "[bold] [/bold] [link=x]", LONG,
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627", f"left {OVERRIDE}tfel\u202c", "  spaces on both sides  ",
    "Case", "prediction", "probability_x", "?", "42", "one, two; three", "=1+1", "\U00010348 \U0001d54f \U00020000",
    f"{ESCAPE}[31mred{ESCAPE}[0m{ESCAPE}]0;title\x07", "\x7f\x85\x9b31m\u2028\u2029\u200b\ufeff", "features", "label",
]  # fmt: skip
# As values, not as names of columns: SQL does not tell names in upper and lower case apart, and has none that is empty.
VALUES = [*TEXTS, "case", "CASE", ""]
TARGET = "target of </script> [bold] ' \" \U0001f3af"
# A column of each of these is in every hostile table, beside the columns of text and numbers.
LISTS = {"numbers 1, 2": [1, 2.5, -3, 1e300], "truths \u2713": [True, False], "digits": ["1", "1.0", "01", "None", "nan"]}
N_ROWS = 600


def schema(target):
    """Every text is the name of a column: numbers and hostile categories in turn."""
    features = {name: Categorical(VALUES) if place % 2 else Numeric(-1, 1) for place, name in enumerate(TEXTS)}
    features |= {name: Categorical(values) for name, values in LISTS.items()}
    return Schema(features, target, vouched_by="O'Brien <b>[red]\n\x1b[31m", one_row_per_person=True)


def classes():
    return Classes(VALUES, name=TARGET)


def bounded():
    return Bounded(-2, 2, name=TARGET)


def table(facts, seed=0, with_missing=True):
    """Rows of a schema as a table of Arrow: the label follows the first texts, the number the first numbers."""
    generator = np.random.default_rng(seed)
    columns = {}
    for name, part in facts.features.items():
        if isinstance(part, Numeric):
            cells = generator.normal(0, 0.7, N_ROWS).tolist()
        else:
            # Some cells hold what is not listed, of the type of the column.
            listed = [*part.categories, *(["unlisted"] if isinstance(part.categories[0], str) else [])]
            cells = [listed[place] for place in generator.integers(0, len(listed), N_ROWS)]
        if with_missing:
            cells = [None if missing else cell for cell, missing in zip(cells, generator.random(N_ROWS) < 0.05, strict=True)]
        columns[name] = pa.array(cells)
    columns[TARGET] = pa.array(answers(facts, columns, generator))
    return pa.table(columns)


def answers(facts, columns, generator):
    numbers = np.array([cell or 0.0 for cell in columns[TEXTS[0]].to_pylist()])
    if isinstance(facts.target, Bounded):
        return (numbers + generator.normal(0, 0.1, N_ROWS)).tolist()
    texts = columns[TEXTS[1]].to_pylist()
    drawn = generator.integers(0, len(VALUES), N_ROWS)
    return [text if text in VALUES and number > 0 else VALUES[place]
            for text, number, place in zip(texts, numbers, drawn, strict=True)]  # fmt: skip


def assert_harmless(text):
    """Nothing in a text moves the cursor, turns the writing or speaks to the terminal."""
    assert {character for character in text if character != "\n" and not character.isprintable()} == set()
