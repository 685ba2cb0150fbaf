"""Commands to devices: rows of the database that the running server publishes, asks for again, and lets expire."""

from fleet_server.commands.publisher import CommandPublisher, Publish

__all__ = ["CommandPublisher", "Publish"]
