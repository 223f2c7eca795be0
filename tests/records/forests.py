"""Forests side by side."""

from dataclasses import fields

import numpy as np

from dpforest.forest.tree import Forest


def assert_same_forest(one, other):
    """Two forests have the same trees, counts and votes."""
    for field in fields(Forest):
        if field.name not in ("domain", "target"):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)
