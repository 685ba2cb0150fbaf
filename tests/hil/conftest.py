"""Tests that ask labgrid are left out and counted where it is not installed, as those of `tests/deploy`."""

from tests.deploy.conftest import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]
