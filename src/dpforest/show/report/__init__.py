"""The privacy report: a page for people, and its twin in JSON for programs. Released values only."""

from dpforest.show.report.html import write_budget_page, write_evaluation, write_report

__all__ = ["write_budget_page", "write_evaluation", "write_report"]
