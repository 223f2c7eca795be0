"""``python -m dpforest.cli``."""

from dpforest.cli.main import app

app()
