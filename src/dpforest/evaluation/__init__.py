"""Scores of a model on a table: exact ones if the table is public, or released ones with noise, which are charged."""

from dpforest.evaluation.cells import predicted_indices
from dpforest.evaluation.figures import Evaluation, Score
from dpforest.evaluation.scoring import evaluate_privately, evaluate_public

__all__ = ["Evaluation", "Score", "evaluate_privately", "evaluate_public", "predicted_indices"]
