"""Columns as a user may have them."""

import numpy as np


def objects(values):
    """A column of Python objects, whatever they are: lists stay lists."""
    column = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        column[index] = value
    return column
