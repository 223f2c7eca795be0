"""JSON has one spelling for what it lacks, wherever the library writes it."""

import json
import math

import numpy as np
import pytest

from dpforest import Classes, DPForestClassifier, Numeric, Schema
from dpforest.audit.attack import Attack
from dpforest.budget import Loss
from dpforest.common.text import jsonable, to_json, unboxed
from dpforest.evaluation import Evaluation, Score


def exact_model():
    schema = Schema({"x": Numeric(0, 7)}, Classes([0, 1]))
    return DPForestClassifier(schema, epsilon=math.inf, recipe="consul-2020").fit([[1.0], [6.0]] * 5, [0, 1] * 5)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (np.float64("inf"), "inf"),
        (math.nan, None),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array([1.5, np.nan, np.inf]), [1.5, None, "inf"]),
        (np.int64(3), 3),
        (np.True_, True),
        ((1, "a", None), [1, "a", None]),
        ({1: (np.float32(0.5),)}, {"1": [0.5]}),
        (Loss(math.inf, 0.5), {"epsilon": "inf", "rho": 0.5, "divergence": "inf", "order": 0.0}),
        (complex(1, 2), "(1+2j)"),
    ],
)
def test_what_json_lacks_has_one_spelling(value, expected):
    assert jsonable(value) == expected
    assert type(jsonable(value)) is type(expected)
    assert json.loads(to_json(value)) == expected


def test_a_number_of_numpy_is_unboxed_and_nothing_else_is_touched():
    assert type(unboxed(np.float64(2))) is float
    assert unboxed(np.array(3)) == 3
    for value in ("text", (1, 2), None, 2.5):
        assert unboxed(value) is value
    array = np.arange(2)
    assert unboxed(array) is array


def test_every_output_of_a_model_without_privacy_spells_infinity_alike():
    model = exact_model()
    released = json.loads(model.to_json())
    outputs = [model.privacy_.to_dict()["epsilon"], released["privacy"]["epsilon"], released["ledger"]["epsilon"]]
    outputs += [Evaluation((), 0.0, model.ledger_).to_dict()["epsilon"]]
    curve = {"fpr": np.array([0.0]), "tpr": np.array([1.0])}
    rest = dict.fromkeys(("tpr_at_1_percent", "tpr_low", "tpr_high", "fpr_tested", "fpr_high", "allowed", "seconds"), 0.5)
    words = {"recipe": "r", "variant": "private", "table": "t", "n_rows": 1, "canary": {}, "n_fits": 1}
    outputs += [Attack(epsilon=math.inf, delta=0.0, **curve, **rest, **words).to_dict()["epsilon"]]
    assert set(outputs) == {"inf"}


def test_a_score_without_a_value_is_null():
    assert Evaluation((Score("a", math.nan, math.nan),), 0.0).to_dict()["scores"] == [
        {"name": "a", "value": None, "margin": None, "sampling": None, "binning": 0.0}
    ]
