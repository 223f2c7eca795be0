"""Coins that were given beforehand, in the place of those that are drawn for each record."""


class GivenDraws:
    """Gives every draw for records the same numbers."""

    def __init__(self, drawn):
        self._drawn = drawn

    def draw_for_records(self, kernel, values, *arguments):
        values[...] = self._drawn
