"""Who may stay connected to the HTTP API at one time: so many in all, and so many of one address.

Whoever connects costs a file of this process from the first packet on, before TLS has said anything. Without a
bound a thousand silent peers would leave none for the database, and one address could have every place.
"""

import logging
import socket
from typing import Any

from fleet_server.http.limits import address_name
from fleet_server.http.metrics import Gauges

MOST = 900
"""In all. Descriptors stay below 1024: systems give a process that many, and `select` takes none beyond."""

MOST_OF_ONE_ADDRESS = 450
"""A fleet or an office may be behind one address; the other half is for everybody else."""

_log = logging.getLogger("fleet_server.http")


class Door(socket.socket):
    """A listening socket that lets in what there is room for, and closes the rest at once."""

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._inside: list[tuple[socket.socket, str]] = []
        self._turned_away = 0

    def numbers(self) -> Gauges:
        """For the metrics: how many were turned away."""
        text = "Connections that were closed at once, because there are too many or too many of their address"
        return {"fleet_http_turned_away_total": (text, {(): float(self._turned_away)})}

    def accept(self) -> tuple[socket.socket, Any]:
        """As a socket does.

        Raises:
            ConnectionAbortedError: somebody came and was turned away.
        """
        came, address = super().accept()
        name = address_name(address[0] if isinstance(address, tuple) else None)
        self._inside = [entry for entry in self._inside if entry[0].fileno() != -1]
        of_it = sum(other == name for _, other in self._inside)
        if len(self._inside) >= MOST or of_it >= MOST_OF_ONE_ADDRESS:
            came.close()
            self._turned_away += 1
            _log.warning("connections are turned away: open=%d of_one_address=%d", len(self._inside), of_it)
            raise ConnectionAbortedError
        self._inside.append((came, name))
        return came, address
