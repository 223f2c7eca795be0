"""What each system was set to, in words, for the page on speed."""

from benchmarks.speed import cases
from benchmarks.speed.floor import N_BINS
from benchmarks.speed.goals import Figures
from benchmarks.speed.systems import BOUND, EPSILON, Shape, lightgbm_settings


def settings_of(figures: Figures) -> list[dict[str, str]]:
    """A line for each system that was measured."""
    threads = next((row["threads"] for row in figures.rows), 1)
    shape = Shape(**figures.scale.shape())
    forest = f"n_estimators={shape.n_trees}, max_depth={shape.depth}, n_jobs={threads}"
    said = {
        cases.FOREST: f"{forest}; cuts between values, no bins",
        cases.EXTRA_TREES: f"{forest}; random cuts, no bins",
        cases.BOOSTING: f"max_iter={shape.n_trees}, max_depth={shape.depth}, max_leaf_nodes={2**shape.depth}, "
        f"max_bins={N_BINS}, early_stopping=False, {threads} OpenMP threads; its bins are made within the time",
        cases.BARE_PASS: f"{N_BINS} bins and two classes in one byte, a pass over all columns for each of {shape.depth} "
        f"levels, {threads} threads",
    }
    for system in (cases.LIGHTGBM, cases.LIGHTGBM_BY_TREE):
        given = ", ".join(f"{name}={value}" for name, value in lightgbm_settings(system, shape, threads).items())
        said[system] = f"{given}; its data set is built before the clock starts"
    for system in cases.OURS:
        row = figures.row(system)
        bins = "" if row is None else f"; {row['bins']} bins, as the recipe has them"
        said[system] = (
            f"recipe={system!r}, epsilon={EPSILON:g}, n_trees={shape.n_trees}, max_depth={shape.depth}, n_jobs={threads}, "
            f"Numeric({-BOUND:g}, {BOUND:g}) for each feature{bins}"
        )
    said[cases.LIGHTGBM_DEFAULTS] = f"LGBMClassifier, n_jobs={threads}, verbose=-1; its data set is built within the time"
    for system, delta in cases.OWN_PLANS.items():
        budget = f"epsilon={EPSILON:g}, delta={delta:g}"
        said[system] = f"{budget}, n_jobs={threads}, Numeric(0, 1) for each feature; the number of rows is declared"
    measured = {row["system"] for row in figures.rows}
    listed = (*cases.OURS, *cases.PEERS, *cases.BY_DEFAULT, cases.BARE_PASS)
    return [{"system": name, "settings": said[name]} for name in listed if name in measured]
