"""The privacy report: a page for people, and its twin for programs."""

from dpforest.show.report.writing import write_report

__all__ = ["write_report"]
