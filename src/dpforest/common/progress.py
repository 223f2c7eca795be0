"""What long work says while it runs. For the eyes of whoever holds the rows; never logged or saved."""


class Step(str):
    """The name of a step, with how much of it is done, counted in some unit (or none)."""

    done: int
    total: int
    unit: str

    def __new__(cls, name: str, done: int, total: int, unit: str = "") -> "Step":
        step = super().__new__(cls, name)
        step.done, step.total, step.unit = done, total, unit
        return step
