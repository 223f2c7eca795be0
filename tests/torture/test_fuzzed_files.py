"""Mutated models, schemas and budgets are refused or read; nothing else happens. ``make torture`` tries 30,000."""

import pytest
from tests.torture import fuzz

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_a_mutated_file_is_refused_or_read_and_nothing_else_happens(kind):
    found = fuzz.run(kind, 50, first_seed=1_000_000)
    assert found["findings"] == []
    # Else the refusals would say nothing: some mutations are harmless, most are not.
    assert found["refused"] > 12
    assert found["read"] > 1
