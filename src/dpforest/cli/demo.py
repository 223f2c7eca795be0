"""dpforest demo: a private forest on a real table of people, start to end."""

import math
import textwrap
from statistics import fmean
from typing import Annotated, Any

import typer

from dpforest.cli.console import output, say, show_table, steps
from dpforest.common.work import Step

N_SEEDS = 10
N_RULES = 6
LEAST_SHARE = 0.1


def demo(epsilon: Annotated[float, typer.Option(help="Privacy budget of each fit.")] = 1.0) -> None:
    """Train on a survey of 6,366 women about extramarital affairs (Fair, 1978; one row each), and show what it cost.

    Example: [bold]dpforest demo --epsilon 0.5[/bold]
    """
    from dpforest.datasets import load_survey
    from dpforest.show.charges import grouped_charges

    X, y, schema = load_survey()
    means, model = _train(X, y, schema, epsilon)
    private, exact, guess, usual = (f"{100 * mean:.1f} %" for mean in means)
    output.print(f"The table is a survey of {len(y):,} women (Fair, 1978): has she had an affair?")
    output.print(f"A private forest was trained at epsilon = {epsilon:.3g}, on each of {N_SEEDS} random splits.")
    output.print(f"It is right on {private} of new rows: guessing on {guess}, no privacy on {usual}.\n")

    total, spent = model.ledger_.spent, []
    for row in grouped_charges(model.ledger_):
        loss = total if row["share"] is None else total * row["share"]  # no share of an infinite loss
        spent.append((row["purpose"], str(row["charges"]), row["mechanism"], f"{loss:.4g}"))
    spent.append(("total", "", "", f"{total:.4g}"))
    show_table("What the last fit spent", ("what was released", "times", "mechanism", "epsilon"), spent)
    scores = [
        ("always the commonest answer", guess),
        (f"private, epsilon = {epsilon:.3g}", private),
        ("no privacy, dpforest at epsilon = inf", exact),
        ("no privacy, ordinary boosting (scikit-learn's)", usual),
    ]
    show_table("What it learnt", ("right on held-out rows", f"mean of {N_SEEDS} splits"), scores)
    _print_forest(model.forest_, model.ledger_)
    output.print(f"\nIn words: {model.privacy_}")
    output.print("(How often it is right is exact, for this demonstration; it is not part of the private release.)")


def _train(X: Any, y: Any, schema: Any, epsilon: float) -> tuple[list[float], Any]:
    """Mean accuracies of private forests, of forests without noise, of a guess and of boosting; the last private forest."""
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier

    from dpforest.estimators import DPForestClassifier

    rows: list[list[float]] = []
    with steps("Training") as progress:
        for seed in range(N_SEEDS):
            train, test = _split(len(y), seed)
            model = DPForestClassifier(schema, epsilon=epsilon)
            exact = DPForestClassifier(schema, epsilon=math.inf)
            usual = HistGradientBoostingClassifier(l2_regularization=1.0, random_state=seed)
            guess = DummyClassifier()
            fitted = [each.fit(X.iloc[train], y.iloc[train]) for each in (model, exact, guess, usual)]
            rows.append([(each.predict(X.iloc[test]) == y.iloc[test].to_numpy()).mean() for each in fitted])
            progress(Step(f"split {seed + 1} of {N_SEEDS}", seed + 1, N_SEEDS))
    return [fmean(values) for values in zip(*rows, strict=True)], model


def _print_forest(forest: Any, ledger: Any) -> None:
    """Print which columns matter, and the strongest rules."""
    from dpforest.forest.tree import said_words
    from dpforest.model.importances import importance_rows

    rows = []
    for row in importance_rows(forest, ledger)[:N_RULES]:
        shares = (f"{100 * row['share']:.1f} %", f"± {100 * row['band']:.1f} %") if row["asked"] else ("not asked",)
        rows.append((row["feature"], *shares))
    show_table("Which columns matter", ("column", "importance", "95 % band"), rows)
    output.print(f"The strongest of the {forest.n_trees} trees' rules, and by how much they move the log-odds of an answer:")
    every = forest.rules()
    sizes = {rule["tree"]: rule["support"] for rule in every if not rule["conditions"]}
    # A leaf with next to no records says what its noise says.
    rules = [rule for rule in every if rule["leaf"] and rule["support"] > LEAST_SHARE * sizes[rule["tree"]]]
    for rule in sorted(rules, key=lambda rule: -rule.get("adds", rule["confidence"]))[:N_RULES]:
        where = f"if {rule['rule']}" if rule["conditions"] else "all records"
        line = f"{where}: affair {said_words(rule)}"
        say(textwrap.fill(line, max(output.width, 40), initial_indent="  ", subsequent_indent="      "))


def _split(n_rows: int, seed: int) -> tuple[Any, Any]:
    import numpy as np

    order = np.random.default_rng(seed).permutation(n_rows)
    return order[n_rows // 4 :], order[: n_rows // 4]
