"""dpforest demo: a private forest on a real table of people, start to end."""

import math
from typing import Annotated, Any

import typer
from rich.table import Table

from dpforest.cli.console import output, steps

N_SEEDS = 10


def demo(epsilon: Annotated[float, typer.Option(help="Privacy budget of each fit.")] = 1.0) -> None:
    """Train on a survey of 6,366 women about extramarital affairs (Fair, 1978; one row each), and show what it cost.

    Example: [bold]dpforest demo --epsilon 0.5[/bold]
    """
    from sklearn.ensemble import RandomForestClassifier

    from dpforest.estimators import DPForestClassifier

    X, y, schema = _survey()
    private, exact, guess, usual = [], [], [], []
    with steps("Training") as progress:
        for seed in range(N_SEEDS):
            progress(f"split {seed + 1} of {N_SEEDS}")
            train, test = _split(len(y), seed)
            model = DPForestClassifier(schema, epsilon=epsilon).fit(X.iloc[train], y.iloc[train])
            twin = DPForestClassifier(schema, epsilon=math.inf).fit(X.iloc[train], y.iloc[train])
            private.append(_accuracy(model, X.iloc[test], y.iloc[test]))
            exact.append(_accuracy(twin, X.iloc[test], y.iloc[test]))
            forest = RandomForestClassifier(min_samples_leaf=5, random_state=seed).fit(X.iloc[train], y.iloc[train])
            usual.append(_accuracy(forest, X.iloc[test], y.iloc[test]))
            guess.append((y.iloc[test] == y.iloc[train].mode()[0]).mean())

    output.print("[bold]Survey of 6,366 women (Fair, 1978): has she had an affair?[/bold]\n")
    spent = Table("what was released", "mechanism", "epsilon", title="What the last fit spent", title_justify="left")
    for entry in model.ledger_.entries():
        spent.add_row(entry["label"], entry["mechanism"], f"{entry['epsilon']:.4g}")
    spent.add_row("[bold]total[/bold]", "", f"[bold]{model.ledger_.spent:.4g}[/bold]")
    output.print(spent)
    found = Table("accuracy on held-out rows", f"mean of {N_SEEDS} splits", title="What it learnt", title_justify="left")
    for name, values in (
        ("always the commonest answer", guess),
        (f"private, epsilon = {epsilon:.3g}", private),
        ("no privacy, the same recipe", exact),
        ("no privacy, scikit-learn's random forest", usual),
    ):
        found.add_row(name, f"{100 * sum(values) / len(values):.1f} %")
    output.print(found)
    output.print("What the private model found first:")
    rules = [rule for rule in model.forest_.rules() if len(rule["conditions"]) == 1]
    for rule in rules:
        output.print(f"  if {rule['rule']}: affair {rule['class']} (share {rule['confidence']:.0%})")
    output.print(f"\nIn words: {model.privacy_}")
    output.print("(The held-out accuracies are for this demonstration; they are not part of the private release.)")


def _survey() -> tuple[Any, Any, Any]:
    from dpforest.errors import ParameterError
    from dpforest.schema import Categorical, Classes, Numeric, Schema

    try:
        from statsmodels.datasets import fair
    except ImportError:
        raise ParameterError("The demo needs the table 'fair' of statsmodels: pip install 'dpforest[demo]'.") from None

    # From the survey's codebook, not from its rows.
    schema = Schema(
        features={
            "rate_marriage": Numeric(1, 5, integer=True),
            "age": Numeric(17, 43),
            "yrs_married": Numeric(0, 24),
            "children": Numeric(0, 6),
            "religious": Numeric(1, 4, integer=True),
            "educ": Numeric(8, 20),
            "occupation": Categorical([1, 2, 3, 4, 5, 6]),
            "occupation_husb": Categorical([1, 2, 3, 4, 5, 6]),
        },
        target=Classes(["no", "yes"], name="affair"),
    )
    data = fair.load_pandas().data
    return data[list(schema.features)], data["affairs"].gt(0).map({True: "yes", False: "no"}), schema


def _split(n_rows: int, seed: int) -> tuple[Any, Any]:
    import numpy as np

    order = np.random.default_rng(seed).permutation(n_rows)
    return order[n_rows // 4 :], order[: n_rows // 4]


def _accuracy(model: Any, X: Any, y: Any) -> float:
    return float((model.predict(X) == y.to_numpy()).mean())
