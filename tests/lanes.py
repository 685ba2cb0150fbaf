"""How tests are shared out where several lanes run side by side (`make test`): a folder is never torn apart.

Tests of one folder share a broker, a database or a road through fixtures. Torn apart, each lane would set them up.
"""

from xdist.scheduler import LoadScopeScheduling


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist says nothing of its types
    """A lane that is free takes the next folder, the one with the most tests first."""

    def _split_scope(self, nodeid: str) -> str:
        """The folder of a test."""
        return nodeid.split("::", 1)[0].rpartition("/")[0]
