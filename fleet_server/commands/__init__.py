"""What goes down to devices: commands, which run out, and desired states, which the broker keeps."""

from fleet_server.commands.publisher import CommandPublisher, Publish

__all__ = ["CommandPublisher", "Publish"]
