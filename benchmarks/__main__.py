"""``python -m benchmarks``, in a clone: runs a benchmark and prints its figures; there is one for each question."""

from benchmarks.commands import commands
from dpforest.cli.main import app

app(commands)
