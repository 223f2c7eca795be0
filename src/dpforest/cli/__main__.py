"""Runs the command line as ``python -m dpforest.cli``."""

from dpforest.cli.main import app

app()
