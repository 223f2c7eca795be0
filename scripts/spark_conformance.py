"""Runs the conformance suite on Spark in local mode and writes what came out to docs/guide/sql.md; needs pyspark and Java.

``--compiled`` lets Spark compile each query, as it does by default, which takes longer; ``--print`` changes no file. The
page keeps a line for the last run of each kind, and the tables of the last run.
"""

import os
import platform
import re
import subprocess
import sys
from collections import defaultdict
from datetime import date
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "sql.md"
SUITE = ROOT / "tests" / "conformance" / "test_conformance.py"
BEGIN, END = "<!-- spark: made by scripts/spark_conformance.py -->", "<!-- end of spark -->"
RECIPES = "test_every_recipe_fits_with_the_answers_and_the_ledger_of_memory_or_is_a_declared_gap"


class Outcomes:
    """What came out of each case of each test: passed, skipped (a declared gap) or failed."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, str]] = defaultdict(dict)
        self.seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        if report.when == "call" or report.outcome != "passed":
            test, case = report.nodeid.split("::")[1].removesuffix("]").split("[", 1)  # a case may have brackets of its own
            self.of[test][case.removeprefix("spark").removeprefix("-")] = report.outcome


def run(mode: str) -> Outcomes:
    """The outcomes of all cases of the backend ``spark``."""
    sys.path.insert(0, str(ROOT))
    os.environ["DPFOREST_SPARK"] = mode
    outcomes = Outcomes()
    ended = pytest.main(["-q", "-p", "no:xdist", "-k", "spark", "--rootdir", str(ROOT), str(SUITE)], plugins=[outcomes])
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit("The suite did not run to its end, so nothing is written.")
    return outcomes


def facts(outcomes: Outcomes, mode: str) -> str:
    """The line on a run: when it was, what came out of how many cases, and with what."""
    found = [outcome for cases in outcomes.of.values() for outcome in cases.values()]
    counts = ", ".join(
        f"{found.count(outcome)} {word}"
        for outcome, word in (("passed", "passed"), ("skipped", "declared gaps"), ("failed", "failed"))
    )
    runtime = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    java = re.search(r'"(.*?)"', runtime)
    libraries = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "ibis-framework", "sqlglot", "pandas"))
    return (
        f"* Queries {mode}, {date.today():%d %B %Y}: {len(found)} cases in {outcomes.seconds:.0f} seconds, {counts}; "
        f"{libraries}, Python {platform.python_version()}, Java {java[1] if java else 'unknown'}."
    )


def tables(outcomes: Outcomes) -> str:
    """What came out for each recipe, and for each other test."""
    lines = [
        "| recipe | task | on Spark |",
        "|---|---|---|",
        *(_line(*case.rsplit("-", 1), _said(case, outcome)) for case, outcome in outcomes.of[RECIPES].items()),
        "",
        "| what else is tested, in cases | passed | declared gap | failed |",
        "|---|---|---|---|",
    ]
    for test, cases in outcomes.of.items():
        if test != RECIPES:
            found = list(cases.values())
            counts = [str(found.count(outcome)) for outcome in ("passed", "skipped", "failed")]
            lines.append(_line(test.removeprefix("test_").replace("_", " "), *counts))
    return "\n".join(lines)


def _said(case: str, outcome: str) -> str:
    """What came out for a recipe; one that was refused as it should be has passed too."""
    from tests.conformance.conformance_backends import sql_gaps

    from dpforest import get_recipe
    from dpforest.records.base import Scored, Weighted

    if outcome != "passed":
        return "**differs**"
    kept = {Weighted: "draws", Scored: "scores"}
    gaps = sql_gaps(False).intersection(get_recipe(case.rsplit("-", 1)[0]).needs)
    lacking = [name for need, name in kept.items() if need in gaps]
    return f"declared gap: records keep {' and '.join(lacking)}" if gaps else "same counts and ledger, to the last unit"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    mode = "compiled" if "--compiled" in sys.argv else "interpreted"
    outcomes = run(mode)
    own, shown = facts(outcomes, mode), tables(outcomes)
    print(own, shown, sep="\n\n")
    if "--print" not in sys.argv:
        before, rest = PAGE.read_text("utf-8").split(BEGIN)
        made, after = rest.split(END)
        others = [line for line in made.splitlines() if line.startswith("* Queries ") and f"Queries {mode}," not in line]
        lines = "\n".join(sorted([own, *others]))
        PAGE.write_text(f"{before}{BEGIN}\n{lines}\n\nThe last of these gave:\n\n{shown}\n{END}{after}", "utf-8")
