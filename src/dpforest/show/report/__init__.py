"""The privacy report: a page for people, and its twin in JSON for programs. Released values only."""

from dpforest.show.report.writing import write_evaluation, write_report

__all__ = ["write_evaluation", "write_report"]
