"""Download: content named by its digest comes over HTTPS in as many tries as it takes, at a bounded cost.

`Downloader.fetch` blocks until everything that was wanted lies in the store, or raises why it does not.
"""

from edge_runtime.updates.download.downloader import Downloader, Origin, Shelf
from edge_runtime.updates.download.metered import default_route_interface, is_metered
from edge_runtime.updates.download.progress import Progress
from edge_runtime.updates.download.rules import Budget, DownloadRules
from edge_runtime.updates.download.shortcut import LocalCopies, Shortcut
from edge_runtime.updates.download.watch import DownloadCancelled
from edge_runtime.updates.wants import Want

__all__ = [
    "Budget",
    "DownloadCancelled",
    "DownloadRules",
    "Downloader",
    "LocalCopies",
    "Origin",
    "Progress",
    "Shelf",
    "Shortcut",
    "Want",
    "default_route_interface",
    "is_metered",
]
