"""What could tighter accounting with delta buy? The default recipe at epsilon, and with the rho of one Gaussian release.

Many small choices and noisy counts lose together what one Gaussian release of the same rho loses, so an accountant could
hand out at most the rho that one with exactly (epsilon, delta) has. Each pair of fits has the same rows and noise of its
own. For the first split it is also computed what each ledger loses by other ways to compose. Rows are kept in a file, and
the page is made from them alone.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from statistics import mean, stdev

from scipy.optimize import brentq
from scipy.stats import norm

from benchmarks.core.page import table_text, write_page
from benchmarks.core.results import Case, Row, attempted, finished, key, read_rows, run_all
from benchmarks.profiles import epsilon_of, halves, pair, steps_of, worst
from benchmarks.profiles import gaussian_rho as filtered_rho
from benchmarks.utility.run import TABLES as SPLITS
from benchmarks.utility.run import load_table, measure
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.privacy.accountants import zcdp_epsilon, zcdp_rho
from dpforest.schema import Classes

QUESTION, LEDGERS = "accounting", "ledgers"
# Tables, with the number of splits: more of those on which fits differ more, which are quick.
TABLES = {"adult": 20, "bank_additional": 20, "nursery": 60, "abalone": 60}
EPSILONS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-5
N_QUICK = 2
METRICS = {"accuracy": "accuracy", "auc": "AUC", "r2": "R²"}
CLEAR = 2.0  # standard errors from 0


def gaussian_delta(rho: float, epsilon: float) -> float:
    """The exact delta of one release with Gaussian noise [ballewang2018, Theorem 8]."""
    move = math.sqrt(2 * rho)  # in standard deviations of the noise
    missed = math.exp(epsilon + norm.logcdf(-move / 2 - epsilon / move))
    return float(norm.cdf(move / 2 - epsilon / move) - missed)


@lru_cache
def gaussian_rho(epsilon: float, delta: float) -> float:
    """The rho of one release with Gaussian noise that has exactly (epsilon, delta)."""
    least = zcdp_rho(epsilon, delta)
    return float(brentq(lambda rho: gaussian_delta(rho, epsilon) - delta, least, 2 * least, xtol=1e-15))


def gaussian_epsilon(rho: float, delta: float) -> float:
    """The epsilon that one release with Gaussian noise of this rho has at delta."""
    return float(brentq(lambda epsilon: gaussian_delta(rho, epsilon) - delta, 0.0, zcdp_epsilon(rho, delta)))


@lru_cache
def most_epsilon(epsilon: float) -> float:
    """The epsilon for which zCDP hands out the rho that one Gaussian release has at ``epsilon``."""
    return round(zcdp_epsilon(gaussian_rho(epsilon, DELTA), DELTA), 4)


def _case(table: str, epsilon: float, seed: int, question: str = QUESTION) -> Case:
    return Case.of(question, table, "auto", "private", seed, epsilon=epsilon, delta=DELTA)


def run(progress: Callable[[str], None], results: Path, quick: bool) -> Iterator[Row]:
    """Measure what ``results`` does not have yet and yield the new rows."""
    cases = [
        _case(table, asked, seed)
        for table, n_seeds in TABLES.items()
        for seed in range(N_QUICK if quick else n_seeds)
        for epsilon in EPSILONS
        for asked in (epsilon, most_epsilon(epsilon))
    ]
    yield from run_all(cases, partial(measure, python=None), results, progress)
    ledgers = [_case(table, epsilon, 0, LEDGERS) for table in TABLES for epsilon in EPSILONS]
    yield from run_all(ledgers, composed, results, progress)


def composed(case: Case) -> Row:
    """What the book in rho of a fit loses at its delta, by each way of composing; the number of rows has another book."""

    def trial() -> Row:
        X, y, schema = load_table(case.dataset, case.seed)
        train, _ = next(table for table in SPLITS if table.name == case.dataset).split.rows(y, case.seed)
        kind = DPForestClassifier if isinstance(schema.target, Classes) else DPForestRegressor
        book = kind(schema, recipe="auto", **dict(case.parameters)).fit(X.take(train), y[train]).ledger_.books[-1]
        steps, delta = steps_of(book), book.accountant.noise_delta
        losses = {
            "zCDP": zcdp_epsilon(book.total, delta),
            "dominating pairs": epsilon_of(steps, delta, pair),
            "Gaussian filter": gaussian_epsilon(filtered_rho(steps), delta),
            "worst adversary": epsilon_of(steps, delta, worst),
            "even choices": epsilon_of(steps, delta, halves),
            "one Gaussian": gaussian_epsilon(book.total, delta),
        }
        return {"n_choices": sum(step.is_choice for step in steps), "losses": losses}

    return case.to_dict() | attempted(trial)


def side_by_side(results: Path) -> list[Row]:
    """For each table, measure and epsilon: the mean at both budgets, and what the larger one gains on the same rows."""
    done = finished(read_rows(results, QUESTION))
    found = []
    for table in TABLES:
        for name, title in METRICS.items():
            for epsilon in EPSILONS:
                pairs = _pairs(done, table, epsilon, name)
                if pairs:
                    found.append({"table": table, "measure": title, "epsilon": f"{epsilon:g}"} | _summary(pairs))
    return found


def _pairs(done: dict[str, Row], table: str, epsilon: float, metric: str) -> list[tuple[float, float]]:
    """The measure in points at epsilon and at the larger budget, for each split that has both."""
    pairs = []
    for seed in range(TABLES[table]):
        rows = [done.get(key(_case(table, asked, seed).to_dict())) for asked in (epsilon, most_epsilon(epsilon))]
        values = [100 * row["metrics"][metric] for row in rows if row and metric in row["metrics"]]
        if len(values) == 2:
            pairs.append((values[0], values[1]))
    return pairs


def _summary(pairs: list[tuple[float, float]]) -> Row:
    gains = [more - less for less, more in pairs]
    error = stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
    return {
        "zCDP": f"{mean(less for less, _ in pairs):.2f}",
        "at most": f"{mean(more for _, more in pairs):.2f}",
        "gain": f"{mean(gains):+.2f}",
        "standard error": f"{error:.2f}",
        "clear": "yes" if abs(mean(gains)) > CLEAR * error else "no",
        "splits": str(len(gains)),
    }


def ledgers(results: Path) -> list[Row]:
    """For each table and epsilon what the ledger of one fit loses, by each way of composing."""
    rows = [row for row in read_rows(results, LEDGERS) if "absent" not in row]
    return [
        {"table": row["dataset"], "ε": f"{row['parameters']['epsilon']:g}", "choices": str(row["n_choices"])}
        | {name: f"{loss:.4f}" for name, loss in row["losses"].items()}
        for row in sorted(rows, key=lambda row: (list(TABLES).index(row["dataset"]), row["parameters"]["epsilon"]))
    ]


def write(results: Path, folder: Path) -> Path:
    """Write the page into a folder, from the rows of a results file."""
    budgets = [
        {
            "ε": f"{epsilon:g}",
            "rho by zCDP": f"{zcdp_rho(epsilon, DELTA):.6f}",
            "rho of one Gaussian": f"{gaussian_rho(epsilon, DELTA):.6f}",
            "ratio": f"{gaussian_rho(epsilon, DELTA) / zcdp_rho(epsilon, DELTA):.3f}",
            "as if ε were": f"{most_epsilon(epsilon):g}",
        }
        for epsilon in EPSILONS
    ]
    lines = side_by_side(results)
    gains = {title: [float(line["gain"]) for line in lines if line["measure"] == title] for title in METRICS.values()}
    means = "; ".join(f"{title} {mean(found):+.2f}" for title, found in gains.items() if found)
    text = f"""# Tighter accounting, measured

With δ, charges add up in rho of zCDP and are converted to ε once. A tighter accountant could hand out more rho for \
the same (ε, δ): for many small releases as much as one Gaussian release with exactly (ε, δ) has. This is that limit at \
δ = {DELTA:g}:

{table_text(budgets)}
And this is what it would buy: the default recipe at ε, and at the ε for which zCDP hands out the larger rho, on the \
same splits of the same tables as in [utility](utility.md), each fit with noise of its own. In points (a hundredth of \
accuracy, of AUC and of R²); *clear* is a difference of more than {CLEAR:g} standard errors. Made by:

    DPFOREST_DATA=tables python -m benchmarks accounting --results docs/bench/accounting.jsonl --report docs/bench

{table_text(lines)}
Mean gain over these tables and budgets: {means}. What follows is in [the decision](../adr/0033-zcdp-stays.md).

## What ledgers lose

The ε of one fit of each kind, without the 2 % for the number of rows, by six ways to compose its charges, as if the \
list of charges had been fixed beforehand. *Dominating pairs* is what libraries of privacy loss distributions can do for \
choices. *Gaussian filter* is a bound with a proof (`gaussian_rho` in `benchmarks/profiles.py`), *worst adversary* the \
least that holds if each release may depend on what was released before, *even choices* what an adversary reaches by a \
record that each choice follows as likely as not, and *one Gaussian* the limit above. Pairs, worst adversary and even \
choices are computed on a grid, to about one part in 200.

{table_text(ledgers(results))}"""
    return write_page(folder, "accounting.md", text)
