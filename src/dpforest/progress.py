"""What long work says while it runs. For the eyes of whoever holds the rows; never logged or saved."""


class Step(str):
    """The name of a step, with how much of it is done."""

    done: int
    total: int

    def __new__(cls, name: str, done: int, total: int) -> "Step":
        step = super().__new__(cls, name)
        step.done, step.total = done, total
        return step
