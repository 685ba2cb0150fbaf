"""Downloads one blob in a process of its own, to be killed at any moment.

    python -m tests.rigs.download_process ROOT URL CERTIFICATE KEY AUTHORITY SHA256 LENGTH CLAIMS DEADLINE_S

Every byte is claimed in the file CLAIMS before it is read, eight bytes a claim. Exit code 0: it is in the store; 3:
the deadline passed.
"""

import os
import sys
from pathlib import Path

from edge_runtime.updates.download import Want
from edge_runtime.updates.problems import UpdateRefused
from tests.rigs.downloads import Device
from tests.rigs.pki import Credentials


class Written:
    """A budget in a file that outlives the process."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def claim(self, count: int) -> bool:
        os.write(self._fd, count.to_bytes(8, "big"))
        return True


def claimed(path: Path) -> list[int]:
    """All that was claimed."""
    data = path.read_bytes()
    return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 8)]


def main(words: list[str]) -> int:
    root, url, certificate, key, authority, sha256, length, claims, deadline_s = words
    party = Credentials("", "", Path(certificate), Path(key), Path(authority))
    device = Device(Path(root), url, party.client_context(), deadline_s=float(deadline_s))
    device.budget = Written(Path(claims))
    try:
        device.fetch(Want(sha256, int(length)))
    except UpdateRefused:
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
