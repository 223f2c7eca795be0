"""A model of every recipe can be exported, drawn, explained and reported, and all of it says the same."""

import re
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from tests.show.exporting import EXPORTS, check
from tests.show.reading import lacks, silently, written
from tests.support.fitted import RECIPES, fitted, small_model

from dpforest import Bounded, list_recipes, plots
from dpforest.privacy.ledger import Ledger
from dpforest.show.charges import grouped_charges, picture

pytestmark = pytest.mark.slow
mpl.use("Agg")

OF_MODELS = [plots.budget_by_level, plots.tree, plots.importances, plots.leaf_noise]
PUBLISHED = [recipe["name"] for recipe in list_recipes() if recipe["published"]]
MEANS = ["auto", "consul-2020", "consul-2020-ert"]
TARGETS = [*((recipe, None) for recipe in RECIPES), *((recipe, Bounded(-3, 12.5)) for recipe in MEANS)]
VARIANTS = [*((recipe, "private") for recipe in RECIPES), *((recipe, "published") for recipe in PUBLISHED)]


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_export_predicts_what_the_model_predicts(recipe):
    model, rows = fitted(recipe)
    for export in EXPORTS:
        check(model, rows[:40], export)


def drawn(*axes):
    """Axes that were drawn without a warning, and whose figures do not outlive this."""
    for ax in axes:
        ax.figure.canvas.draw()
    plt.close("all")


# Before a landing some recipes stand for all; that bars add up follows from the ledger, which every recipe's report shows.
@pytest.mark.parametrize(
    ("recipe", "target"),
    [case if place % 3 == 0 else pytest.param(*case, marks=pytest.mark.night) for place, case in enumerate(TARGETS)],
)
def test_plots_are_drawn_and_bars_of_the_budget_are_all_that_was_spent(recipe, target):
    model, _ = fitted(recipe, target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(*(draw(model) for draw in OF_MODELS[1:]), plots.effects(model, pairs=0)[0])
        ax = plots.budget_by_level(model)
        ax.figure.canvas.draw()
    widths = np.array([bar.get_width() for bar in ax.patches])
    assert widths.sum() == pytest.approx(1, rel=1e-9)
    assert (widths > 0).all()
    amounts = [float(found) for text in ax.texts for found in re.findall(r"epsilon ([\d.e+-]+)", text.get_text())]
    assert sum(amounts) == pytest.approx(model.ledger_.spent, rel=0.01)
    plt.close("all")
    found = model.effects(0)
    values = np.array([value for effect in found.features for part in effect.parts for value in part.effects])
    assert found.features or (model.forest_.features < 0).all()
    assert np.isfinite(values).all()


@pytest.mark.parametrize(("recipe", "variant"), VARIANTS)
def test_the_report_says_what_the_statement_and_the_ledger_say(recipe, variant, tmp_path):
    model = silently(small_model, recipe, variant, max_depth=3)
    words, page, twin = written(model, tmp_path)
    assert len(page) < 2_000_000
    assert twin["guarantee"]["holds"] == model.privacy_.holds
    assert twin["guarantee"]["sentence"] == model.privacy_.sentence
    assert len(twin["trees"]["nodes"]) == model.forest_.n_nodes
    assert Ledger.from_dict(twin["whole_ledger"]) == model.ledger_
    reasons = ["No privacy guarantee holds for this model.", *model.privacy_.reasons]
    assert lacks(words, *([model.privacy_.sentence] if model.privacy_.holds else reasons)) == []
    if variant == "private":
        check_shares(model.ledger_)


def check_shares(ledger):
    """Shares of a ledger add up, and every charge is counted."""
    groups, blocks = grouped_charges(ledger), [picture(ledger)]
    assert sum(group["share"] for group in groups) == pytest.approx(1)
    assert sum(group["charges"] for group in groups) >= ledger.n_entries
    assert blocks[0]["cost"] == ledger.spent
    while blocks:
        block = blocks.pop()
        assert not block["children"] or sum(part["share"] for part in block["children"]) == pytest.approx(block["share"])
        blocks += block["children"]
