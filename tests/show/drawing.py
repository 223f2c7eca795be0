"""What tests of plots share: strictness, and what is to be read in a figure."""

import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from dpforest.errors import LeakWarning

mpl.use("Agg")


@pytest.fixture(autouse=True)
def strict():
    """Every warning is an error but those of fits, and figures neither come from another test nor outlive this."""
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LeakWarning)
        yield
    plt.close("all")


def texts(ax):
    ax.figure.canvas.draw()
    return [text.get_text() for text in ax.figure.findobj(mpl.text.Text) if text.get_text()]
