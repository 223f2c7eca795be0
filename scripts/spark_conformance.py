"""Runs the conformance suite on Spark in local mode and writes what came out to docs/guide/sql.md; needs pyspark and Java.

``--compiled`` lets Spark compile each query, as it does by default, which takes longer; ``--print`` changes no file.
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
RECIPES = "test_every_recipe_fits_with_the_answers_and_the_ledger_of_memory_or_is_a_declared_gap"


class Outcomes:
    """What came out of each case of each test: passed, skipped (a declared gap) or failed."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, str]] = defaultdict(dict)
        self.seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        if report.when == "call" or report.outcome != "passed":
            test, case = report.nodeid.split("::")[1].rstrip("]").split("[")
            self.of[test][case.removeprefix("spark").removeprefix("-")] = report.outcome


def run(mode: str) -> Outcomes:
    """The outcomes of all cases of the backend ``spark``."""
    sys.path.insert(0, str(ROOT))
    os.environ["DPFOREST_SPARK"] = mode
    outcomes = Outcomes()
    pytest.main(["-q", "-p", "no:xdist", "-k", "spark", "--rootdir", str(ROOT), str(SUITE)], plugins=[outcomes])
    return outcomes


def table(outcomes: Outcomes, mode: str) -> str:
    n_cases = sum(map(len, outcomes.of.values()))
    if not n_cases:
        raise SystemExit("No case ran, so nothing is written.")
    runtime = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    libraries = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "ibis-framework", "sqlglot", "pandas"))
    java = re.search(r'"(.*?)"', runtime)
    lines = [
        f"{date.today():%d %B %Y}: {n_cases} cases in {outcomes.seconds:.0f} seconds, queries {mode}; {libraries}, "
        f"Python {platform.python_version()}, Java {java[1] if java else 'unknown'}.",
        "",
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
    """A recipe that was refused as it should be has passed too."""
    from tests.conformance.conformance_backends import sql_gaps
    from tests.conformance.test_conformance import kinds_needed

    if outcome != "passed":
        return "**differs**"
    gaps = sorted(kinds_needed(*case.rsplit("-", 1)) & sql_gaps(False).keys())
    return f"declared gap: {', '.join(gaps)}" if gaps else "same counts and ledger, to the last unit"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    mode = "compiled" if "--compiled" in sys.argv else "interpreted"
    made = table(run(mode), mode)
    print(made)
    if "--print" not in sys.argv:
        begin, end = "<!-- spark: made by scripts/spark_conformance.py -->", "<!-- end of spark -->"
        text = PAGE.read_text("utf-8")
        before, rest = text.split(begin)
        PAGE.write_text(f"{before}{begin}\n{made}\n{end}{rest.split(end)[1]}", "utf-8")
