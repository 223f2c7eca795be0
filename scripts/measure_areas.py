"""Measures how far a released area under the curve lies from the exact one: the table in docs/guide/evaluate.md.

``python scripts/measure_areas.py`` prints it; tables are looked for in the folder DPFOREST_DATA. Half of each table trains a
model, up to 10,000 rows of the other half are scored, and the release is drawn again 200 times.
"""

import math

import numpy as np
import pyarrow as pa

from dpforest import DPForestClassifier
from dpforest.datasets import load_dataset
from dpforest.evaluation.cells import Cells
from dpforest.evaluation.figures import AREA, Released, area
from dpforest.evaluation.scoring import evaluate_public
from dpforest.mechanisms import Entropy, GeometricNoise, Rate
from dpforest.privacy.amounts import exact

TABLES = ("adult", "bank_additional", "credit_default")
SIZES, EPSILONS, N_DRAWS = (1_000, 10_000), (0.1, 1.0), 200


def taken(values, rows):
    """Some rows of a table or column of Arrow, of pandas or of numpy."""
    return values.take(pa.array(rows)) if hasattr(values, "take") and not hasattr(values, "iloc") else values.iloc[rows]


def main() -> None:
    heads = [f"n = {n:,}, ε = {epsilon:g}" for n in SIZES for epsilon in EPSILONS]
    print("| table | area | by bins | " + " | ".join(heads) + " |\n|---|---|---|" + "---|" * len(heads))
    for name in TABLES:
        X, y, schema = load_dataset(name)
        order = np.random.default_rng(0).permutation(len(y))
        train, test = order[: len(y) // 2], order[len(y) // 2 :]
        model = DPForestClassifier(schema, epsilon=1, delta=1e-5, random_state=0).fit(taken(X, train), taken(y, train))
        cells, columns = Cells.of(model, None, None, 0.5), []
        for n in SIZES:
            rows = taken(X, test[:n]), taken(y, test[:n])
            truth = {score.name: score.value for score in evaluate_public(model, *rows).scores}[AREA]
            counts = []
            cells.count([(*rows, None)]).map(counts.append)
            whole = counts[0].sum(axis=(0, 1))
            binned = area(Released(whole, 0.0)).value
            columns += [error(whole, truth, epsilon) for epsilon in EPSILONS]
        print(f"| {name} | {truth:.3f} | {binned:.3f} | " + " | ".join(columns) + " |")


def error(counts, truth, epsilon):
    """The root mean square error of released areas, and how often they could not be told."""
    rate, entropy, found = Rate.below(exact(epsilon)), Entropy(1), []
    for _ in range(N_DRAWS):
        noisy = counts + GeometricNoise().draw(counts.shape, rate, entropy)
        found.append(area(Released(noisy, math.sqrt(GeometricNoise.variance(rate)))).value)
    known = np.array(found)[~np.isnan(found)]
    if len(known) < N_DRAWS / 2:
        return "too few records"
    return f"{math.sqrt(np.square(known - truth).mean()):.3f}"


if __name__ == "__main__":
    main()
