"""Any number in an audit, an evaluation or the header of a model is shown on a page, or refused."""

import json
import math

import pytest
from tests.torture.forged import forge
from tests.torture.samples import classifier, rows

from dpforest import load_model
from dpforest.common.jsonable import to_json
from dpforest.errors import DPForestError
from dpforest.evaluation import evaluate_privately

pytestmark = pytest.mark.slow

NUMBERS = (math.nan, math.inf, -math.inf, 1e308, 5e-324, 10**400, -1, None, "inf", "nan", "half \ud800")
ENTRY = {
    "recipe": "jagannathan-2009", "variant": "private", "verdict": "nothing found", "epsilon": 1.0, "delta": 0.0,
    "replay": {"findings": [{"words": "x"}], "n_pairs": 3, "closest": 0.3},
    "lower_bound": {"exceeds": True, "words": "w", "claimed": 1.0, "epsilon": 0.3, "confidence": 0.95, "n_tested": 100},
}  # fmt: skip


def places(value, path=()):
    """The way to each plain value within a value, of alike entries of a list to those of the first."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else None
    return [path] if inside is None else [found for key, item in inside for found in places(item, (*path, key))]


def put(content, path, value):
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = value


@pytest.mark.parametrize("what", ["audit", "evaluation", "header"])
@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.night)], ids=["some", "all"])
def test_any_number_of_a_file_is_shown_or_refused(tmp_path, what, share):
    path, page = tmp_path / "m.dpf", tmp_path / "r.html"
    model = classifier(max_depth=1, n_trees=1, recipe="jagannathan-2009")
    model.save(path)
    content, saved = {"audits": [ENTRY]}, path.read_bytes()
    if what == "evaluation":
        content = json.loads(to_json(evaluate_privately(model, rows(), ["no", "yes"] * 25, 1.0).to_dict()))
    elif what == "header":
        forge(path, {}, lambda facts: content.update(facts))
        del content["audits"]
    n_refused = 0
    for turn, place in enumerate(places(content)):
        for number in NUMBERS[turn % share :: share]:
            changed = json.loads(json.dumps(content))
            put(changed, place, number)
            try:
                if what == "header":
                    path.write_bytes(saved)
                    forge(path, {}, lambda facts, place=place, number=number: put(facts, place, number))
                    load_model(path).save_report(page)
                else:
                    model.save_report(page, **{what: changed})
            except DPForestError:
                n_refused += 1
            except ValueError:
                assert what == "header"  # JSON has no such number, so nobody can forge it
                assert isinstance(number, float)
    assert n_refused
