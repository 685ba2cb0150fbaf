"""Command lines run in this process, as those of other rooms."""

from tests.cli.conftest import cli

__all__ = ["cli"]
