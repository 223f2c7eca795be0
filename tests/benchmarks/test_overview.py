"""The picture of README.md and what is said beside it: same tables and splits for all, and only what the rows say."""

import re
from xml.etree import ElementTree

import pytest

from benchmarks.core.results import Case
from benchmarks.utility.figures import APPROXIMATE, PURE, Figures
from benchmarks.utility.overview import drawn, in_words, left_out, panels, picture
from benchmarks.utility.run import EPSILONS, N_SEEDS
from benchmarks.utility.verdicts import verdicts

DIFFPRIVLIB, DP_EBM = "diffprivlib forest", "interpret DP-EBM"


def row(table, system, seed, value, **parameters):
    variant = "private" if parameters else "no privacy"
    return Case.of("utility", table, system, variant, seed, **parameters).to_dict() | {"metrics": {"accuracy": value}}


def rows(table, *, auto=0.8, peer=0.7, ebm=0.75, n_peer_splits=N_SEEDS):
    """Every system on a table: what it reaches, a little more with a larger budget."""
    for seed in range(N_SEEDS):
        yield row(table, "guess", seed, 0.5)
        yield row(table, "boosting", seed, 0.9)
        for epsilon in EPSILONS:
            for delta, more in ((PURE, 0.0), (APPROXIMATE, 0.01)):
                yield row(table, "auto", seed, auto + epsilon / 100 + more, epsilon=epsilon, delta=delta)
            if seed < n_peer_splits:
                yield row(table, DIFFPRIVLIB, seed, peer, epsilon=epsilon, delta=PURE, n_estimators=1)
                yield row(table, DIFFPRIVLIB, seed, peer - 0.1, epsilon=epsilon, delta=PURE, n_estimators=9)
            if ebm is not None:
                yield row(table, DP_EBM, seed, ebm, epsilon=epsilon, delta=APPROXIMATE)


def of(*tables):
    return Figures.of(row for table in tables for row in table)


def test_a_panel_is_the_mean_over_its_tables_of_the_default_and_of_the_best_settings():
    two, more = panels(of(rows("adult", auto=0.8), rows("pima", auto=0.6), rows("nursery", ebm=None)))
    assert two.title == "2 real tables with two classes"
    assert two.curves["dpforest, δ = 0"][1.0].mean == pytest.approx(0.71)
    assert two.curves["dpforest, δ = 10⁻⁵"][1.0].mean == pytest.approx(0.72)
    assert two.curves["diffprivlib, δ = 0"][1.0].mean == pytest.approx(0.7)
    assert two.curves["DP-EBM, δ = 10⁻⁵"][1.0].mean == pytest.approx(0.75)
    assert two.levels == pytest.approx({"boosting": 0.9, "guess": 0.5})
    assert more.title == "1 real tables with more classes"
    assert "DP-EBM, δ = 10⁻⁵" not in more.curves


def test_a_table_on_which_a_system_lacks_a_split_is_left_out_for_all():
    figures = of(rows("adult"), rows("pima", peer=0.1, n_peer_splits=N_SEEDS - 1), rows("banknote", ebm=None))
    (panel,) = panels(figures)
    assert panel.title == "1 real tables with two classes"
    assert panel.curves["diffprivlib, δ = 0"][1.0].mean == pytest.approx(0.7)
    assert left_out(figures) == ["banknote", "pima"]


def test_points_are_as_high_as_the_means_that_they_stand_for():
    (panel,) = found = panels(of(rows("adult")))
    for text in drawn(found).values():
        svg = ElementTree.fromstring(text)
        names = {"svg": "http://www.w3.org/2000/svg"}
        heights, values = [], []
        for circle in svg.findall(".//svg:circle", names):
            title = circle.find("svg:title", names)
            if title is not None:  # else it is in the legend
                heights.append(float(circle.get("cy")))
                values.append(float(re.search(r": ([\d.]+) %", title.text)[1]))
        assert len(values) == 2 * len(EPSILONS)
        drawn_at = dict(zip(values, heights, strict=True))
        assert set(drawn_at) == {
            round(100 * figure.mean, 2)
            for name, points in panel.curves.items() if name.startswith("dpforest") for figure in points.values()
        }  # fmt: skip
        low, high = min(values), max(values)
        for value, height in drawn_at.items():
            share = (value - low) / (high - low)
            assert height == pytest.approx(drawn_at[low] + share * (drawn_at[high] - drawn_at[low]), abs=0.2)
        assert drawn_at[high] < drawn_at[low]


def test_the_picture_is_told_in_words():
    found = panels(of(rows("adult")))
    words = in_words(found)
    assert "dpforest on 82.0 %, dpforest with δ = 0 on 81.0 %, DP-EBM on 75.0 %, diffprivlib on 70.0 %" in words
    assert f'alt="{words}"' in picture(found, "docs/")
    assert 'src="docs/utility-overview-light.svg"' in picture(found, "docs/")


def test_verdicts_count_every_table_once():
    figures = of(rows("adult", auto=0.6), rows("pima", peer=0.81, ebm=0.7), rows("exclusive_or"))
    pure, approximate = verdicts(figures).split("\n")
    assert (
        "above the best peer on 1 of 3 tables (2 real, 1 generated), within 0.3 points of it on 1, and below it on 1" in pure
    )
    assert "on 2 of 3 tables" in approximate
