"""Generated tables: what they promise about their distributions, bounds and seeds."""

import numpy as np
import pytest

from benchmarks.utility.generated import FAMILIES, generate


def drawn(name, seed=0):
    table, y, schema = generate(name, seed)
    return np.column_stack([column.to_numpy() for column in table.columns]), np.asarray(y), schema


@pytest.mark.parametrize("name", FAMILIES)
def test_a_seed_gives_the_same_table_and_public_bounds_cut_off_next_to_nothing(name):
    X, y, schema = drawn(name)
    again, y_again, _ = drawn(name)
    assert (again == X).all()
    assert (y == y_again).all()
    assert not (drawn(name, seed=1)[0] == X).all()
    assert schema.n_rows is None
    bounds = next(iter(schema.features.values()))
    assert (np.abs(X) > bounds.upper).mean() < 1e-3
    assert set(np.unique(y)) == set(schema.target.labels) == set(range(FAMILIES[name].n_classes))


def test_weak_features_are_shifted_by_a_quarter_each():
    X, y, _ = drawn("weak_features")
    assert X.shape == (8_000, 30)
    assert (X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)).mean() == pytest.approx(0.25, abs=0.02)


def test_the_wider_class_has_the_same_centre():
    X, y, _ = drawn("wider_class")
    assert np.abs(X.mean(axis=0)).max() < 0.1
    assert X[y == 1].std() / X[y == 0].std() == pytest.approx(2, abs=0.05)


def test_what_is_useful_is_what_the_name_of_a_table_says():
    X, y, _ = drawn("exclusive_or")
    assert (y == ((X[:, 0] > 0) ^ (X[:, 1] > 0))).all()
    assert max(abs(np.corrcoef(column, y)[0, 1]) for column in X.T) < 0.05  # one feature alone says nothing
    X, y, _ = drawn("irrelevant_features")
    distances = np.abs(X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0))
    assert (distances[:4] > 0.8).all()
    assert (distances[4:] < 0.2).all()
    assert drawn("rare_positives")[1].mean() == pytest.approx(0.01, abs=0.003)
