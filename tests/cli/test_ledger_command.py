"""The ledger as the command prints it: enough to add up the loss of a model without the library."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from tests.cli.command import done
from tests.support.stated import epsilon_of

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, DPSearchCV, Numeric, Schema
from dpforest.cli.console import output

RNG = np.random.default_rng(11)
X = RNG.random((300, 2))
Y = (X[:, 0] > 0.5).astype(int)
FEATURES = {"x": Numeric(0, 1), "z": Numeric(0, 1)}
SCHEMA = Schema(FEATURES, Classes([0, 1]))
KNOWN = Schema(FEATURES, Classes([0, 1]), n_rows=300)
SHAPE = {"n_trees": 3, "max_depth": 2, "random_state": 1}
# A rate is rounded down to a short fraction, by less than one part in 60,000.
ROUNDING = 1 / 60_000


def classifier(schema, *budget, **parameters):
    return DPForestClassifier(schema, *budget, **SHAPE | parameters).fit(X, Y)


def of_people():
    model = DPForestClassifier(KNOWN, 2.0, 1e-6, recipe="consul-2020", max_rows_per_person=3, **SHAPE)
    return model.fit(X, Y, groups=np.arange(300) // 2)


def searched(delta=0.0):
    estimator = DPForestClassifier(SCHEMA, delta=delta, n_trees=2, max_depth=1)
    return DPSearchCV(estimator, {"recipe": ["consul-2020"]}, epsilon=2.0, mean_runs=2.0).fit(X, Y).best_estimator_


def listing(rows=None, **settings):
    schema = Schema({"town": Categorical(learn=True), "x": Numeric(0, 1)}, Classes([0, 1]), n_rows=300)
    model = DPForestClassifier(schema, 2.0, 1e-6, max_rows_per_person=rows, **SHAPE | settings)
    return model.fit(np.column_stack([X[:, 1] > 0.3, X[:, 0]]), Y, groups=None if rows is None else np.arange(300) // 2)


# Models, the units of their books, and how scopes add up that are not in sequence.
MODELS = {
    "pure": (lambda: classifier(SCHEMA, 1.0), ["epsilon"], set()),
    "zCDP": (lambda: classifier(KNOWN, 2.0, 1e-6, recipe="friedman-schuster-2010", n_trees=1), ["rho"], set()),
    "disjoint trees": (lambda: classifier(KNOWN, 1.0, recipe="guan-2020"), ["epsilon"], {"parallel"}),
    "disjoint trees, zCDP": (lambda: classifier(KNOWN, 1.0, 1e-6, recipe="guan-2020"), ["rho"], {"parallel"}),
    "bootstrap": (lambda: classifier(KNOWN, 1.0, recipe="dong-2022"), ["epsilon"], {"bootstrap"}),
    "parts, bootstrap": (lambda: classifier(KNOWN, 1.0, recipe="li-2022"), ["epsilon"], {"parallel", "bootstrap"}),
    "first look": (lambda: classifier(KNOWN, 1.0, recipe="patil-singh-2014"), ["epsilon"], {"bootstrap"}),
    "class means": (lambda: classifier(KNOWN, 1.0, recipe="suihkonen-2023"), ["epsilon"], {"parallel"}),
    "two books": (lambda: classifier(SCHEMA, 5.0, 1e-6, recipe="auto", n_trees=None), ["epsilon", "rho"], set()),
    "a number": (lambda: DPForestRegressor(Schema(FEATURES, Bounded(0, 1)), 2.0, 1e-6, max_depth=2).fit(X, X[:, 0]),
                 ["epsilon", "rho"], set()),
    "people": (of_people, ["rho"], {"parallel"}),
    "search": (searched, ["epsilon"], {"parallel"}),
    "search, zCDP": (lambda: searched(1e-6), ["rho"], {"parallel"}),
    "lists": (lambda: listing(recipe="consul-2020"), ["rho"], {"parallel"}),
    "lists, bootstrap": (lambda: listing(recipe="dong-2022"), ["epsilon"], {"bootstrap"}),
    "lists of people": (lambda: listing(rows=3, recipe="consul-2020"), ["rho"], {"parallel"}),
}  # fmt: skip


def printed(model, folder, *options):
    model.save(folder / "m.dpf")
    return done("ledger", folder / "m.dpf", *options)


# --- another accountant, which knows nothing but what was printed ---------------------------------------------------


def loss_of(charge, unit):
    """What one record loses by a mechanism, from what it ran at: not from the amount that is stated."""
    known, name = {key: Fraction(value) for key, value in charge["parameters"].items()}, charge["mechanism"]
    if name == "private selection" and unit == "rho":
        return rho_of_best(*(float(known[key]) for key in ("gamma", "of_one_run", "at_delta"))) - float(known["of_one_run"])
    if name == "private selection":
        gamma, grown = float(known["gamma"]), math.exp(known["of_one_run"])
        return math.log((gamma + grown) / (1 + gamma * grown))
    if name == "gaussian":
        assert unit == "rho"
        return float(known["l2_squared"] / (2 * known["variance"]))
    epsilon = float(known["rate"] * known["l1" if name in ("geometric", "k-norm") else "width"])
    if unit == "epsilon":
        return epsilon
    return epsilon**2 / (8 if name == "exponential" else 2)


def rho_of_best(gamma, rho, delta):
    """The rho that has, at this delta, the epsilon of the best of a logarithmic number of rho-zCDP runs.

    With t for the chance of a better run on a table, that on its neighbour is at most exp(-(sqrt(log(1/t)) - sqrt(rho))**2).
    """
    far, orders = np.linspace(0, 40, 20_001), 1 + np.geomspace(1, 300, 500)
    u, v = (gamma + (1 - gamma) * np.exp(-x) for x in (far, np.maximum(np.sqrt(far) - math.sqrt(rho), 0) ** 2))
    of_choice = [np.max((order - 1) * np.log(v) - order * np.log(u)) for order in orders]
    moments = orders * (orders - 1) * rho + math.log((1 - gamma) / -math.log(gamma)) + of_choice

    def epsilon_of_moments(moments):
        return np.min((moments - math.log(delta) - np.log(orders)) / (orders - 1) + np.log1p(-1 / orders))

    low, high, epsilon = 0.0, 10.0, epsilon_of_moments(moments)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of_moments(orders * (orders - 1) * middle) < epsilon else (low, middle)
    return low


def charges(entry):
    return [entry] if "scope" not in entry else [charge for child in entry["children"] for charge in charges(child)]


def scopes(entry):
    return [entry, *(inner for child in entry["children"] for inner in scopes(child))] if "scope" in entry else []


def slack(charge):
    """By which part an amount may be above what the mechanism loses; a search takes its largest loss over cells."""
    return 1e-3 if "at_delta" in charge["parameters"] else 2.5 * ROUNDING


def is_honest(charge, unit):
    """Whether an amount is not less than what its mechanism loses, nor more than rounding explains."""
    return (1 - slack(charge)) * charge["amount"] <= loss_of(charge, unit) <= (1 + 1e-9) * charge["amount"]


@pytest.fixture(scope="module", params=MODELS)
def document(request, tmp_path_factory):
    make, units, kinds = MODELS[request.param]
    model = make()
    found = json.loads(printed(model, tmp_path_factory.mktemp("model"), "--json"))
    assert [book["unit"] for book in found["books"]] == units
    assert kinds == {scope["kind"] for book in found["books"] for scope in scopes(book["root"])} - {"sequential"}
    return found, model.ledger_.spent


def test_the_stated_epsilon_is_found_again_from_the_printed_ledger_alone(document):
    found, spent = document
    assert found["spent"] == spent
    # From what is stated of each charge: but for floating point, and the grid of orders.
    assert epsilon_of(found) == pytest.approx(spent, rel=1e-7)
    # From what each mechanism ran at: a little less, since rates are rounded down. A rho has the square of a rate.
    assert (1 - 6 * ROUNDING) * spent <= epsilon_of(found, loss_of) <= (1 + 1e-7) * spent


def test_every_amount_is_what_its_mechanism_loses_and_a_tenth_less_is_found(document):
    found, _ = document
    for book in found["books"]:
        for charge in charges(book["root"]):
            assert is_honest(charge, book["unit"])
            assert not is_honest(charge | {"amount": 0.9 * charge["amount"]}, book["unit"])
            assert set(charge) <= {"charge", "step", "level", "subset", "round", "mechanism", "parameters", "amount"}
            assert (charge["charge"] in ("splits", "counts")) == ("level" in charge)


def delta_of(charge, rows, fewer=0):
    """The chance that a list names a value that the records of one unit alone have, from what it ran at."""
    known = {key: Fraction(value) for key, value in charge["parameters"].items()}
    noise = np.arange(-20_000, 20_001)
    decline = noise**2 / float(2 * known["variance"]) if "variance" in known else np.abs(noise) * float(known["rate"])
    masses = np.exp(-decline)
    tails = [masses[noise >= int(known["threshold"]) - fewer - m].sum() / masses.sum() for m in (1, rows)]
    return max(rows * tails[0], tails[1])


def test_the_delta_of_every_list_is_found_again_and_a_threshold_that_is_one_too_small_too(document):
    found, _ = document
    for book in found["books"]:
        lists = [charge for charge in charges(book["root"]) if "threshold" in charge["parameters"]]
        stated = [Fraction(charge["parameters"]["delta"]) for charge in lists]
        assert sum(stated) <= Fraction(str(book.get("threshold_delta", 0)))
        for charge, delta in zip(lists, stated, strict=True):
            assert delta_of(charge, found["rows_of_unit"]) <= delta < delta_of(charge, found["rows_of_unit"], fewer=1)


def test_the_table_shows_every_charge_with_its_scope_mechanism_and_parameters(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "width", 200)
    shown = printed(classifier(KNOWN, 1.0, recipe="dong-2022"), tmp_path)
    assert "Book 1: epsilon = 1 " in shown
    assert "each tree x 3 / Poisson bootstrap (bootstrap)" in shown
    assert all(words in shown for words in ("splits of level 0", "splits of level 1", "leaves", "permute-and-flip", "rate "))
    assert "Spent: epsilon = 1. " in shown
