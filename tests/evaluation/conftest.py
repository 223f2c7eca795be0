"""Models without noise, fitted once for the tests of a file, and the tables to score them on."""

from tests.support.scored import classifier, classifier_of_two, regressor

__all__ = ["classifier", "classifier_of_two", "regressor"]
