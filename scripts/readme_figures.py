"""Writes what README.md shows of the benchmarks, between its marks, and the picture that it begins with.

``--check`` only says whether all of it is what the stored rows say.
"""

import gzip
import json
import sys
from pathlib import Path

from benchmarks.core.figures import time_text
from benchmarks.core.results import finished, read_rows
from benchmarks.speed import cases
from benchmarks.speed.goals import Figures as SpeedFigures
from benchmarks.utility.figures import Figures
from benchmarks.utility.overview import NAME, drawn, panels, picture, write_pictures
from benchmarks.utility.verdicts import verdicts

ROOT = Path(__file__).parents[1]
README, BENCH = ROOT / "README.md", ROOT / "docs" / "bench"


def utility_figures() -> Figures:
    with gzip.open(BENCH / "utility.jsonl.gz", "rt", encoding="utf-8") as rows:
        return Figures.of(finished(json.loads(row) for row in rows).values())


def speed() -> str:
    """How long a fit takes that sets nothing but the budget, and how often it is right, beside LightGBM."""
    figures = SpeedFigures.of(finished(read_rows(BENCH / "speed.jsonl")).values())
    few, many = figures.scale.default_step

    def fit(system: str, n_rows: int) -> tuple[str, str]:
        row = figures.by_default(system, n_rows=n_rows)
        if row is None:
            raise SystemExit(f"docs/bench/speed.jsonl has no row of {system!r} on {n_rows:,} rows.")
        return time_text(row["seconds"]), f"{100 * row['accuracy']:.1f} %"

    (pure, right), (delta, delta_right), (peer, peer_right) = (
        fit(system, few) for system in (cases.PURE_PLAN, cases.DELTA_PLAN, cases.LIGHTGBM_DEFAULTS)
    )
    return (
        f"With ε = 1 and a schema that says the bounds and the number of rows, a fit on {few:,} rows and {cases.N_FEATURES} "
        f"features takes {pure} on two cores\nand is right on {right} of new rows; with δ = 10⁻⁶ it takes {delta} and is "
        f"right on {delta_right}. LightGBM's default, without privacy,\ntakes {peer} and is right on {peer_right}. "
        f"On {many:,} rows our fits take {fit(cases.PURE_PLAN, many)[0]} and {fit(cases.DELTA_PLAN, many)[0]}."
    )


def with_blocks(text: str, blocks: dict[str, str]) -> str:
    """The text with each block between its marks."""
    for name, block in blocks.items():
        begin, end = f"<!-- {name}: made by scripts/readme_figures.py -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n{block}\n{end}{after}"
    return text


if __name__ == "__main__":
    figures = utility_figures()
    found = panels(figures)
    text = README.read_text("utf-8")
    wanted = with_blocks(text, {"figure": picture(found, "docs/bench/"), "verdicts": verdicts(figures), "speed": speed()})
    if "--check" in sys.argv:
        pictures = {BENCH / NAME.format(theme=theme): svg for theme, svg in drawn(found).items()}
        stale = [path.name for path, svg in {**pictures, README: wanted}.items() if path.read_text("utf-8") != svg]
        sys.exit(f"Not what the rows say: {', '.join(stale)}. Run python -m scripts.readme_figures." if stale else 0)
    README.write_text(wanted, "utf-8")
    write_pictures(found, BENCH)
