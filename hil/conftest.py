"""`pytest hil` is the plan with its plugin."""

import pytest


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Bring the plugin in before the command line is read to its end."""
    pluginmanager.import_plugin("hil.plugin")
