"""Progress of long work. It may show numbers of rows, so it is for whoever holds the rows, and never logged or saved."""


class Step(str):
    """The name of a step as text, with ``done`` of ``total`` of it done."""

    done: int
    total: int
    unit: str  # what is counted, such as "rows"; empty if it need not be said

    def __new__(cls, name: str, done: int, total: int, unit: str = "") -> "Step":
        step = super().__new__(cls, name)
        step.done, step.total, step.unit = done, total, unit
        return step
