"""What the uplink remembers across restarts beside its budget: with which brokers only MQTT 3.1.1 worked."""

import contextlib
import json
from pathlib import Path

from edge_runtime.durable import write_file
from edge_runtime.protocol.enrolment import BrokerAddress

_MAX_FILE = 8 * 1024
_MAX_BROKERS = 16


class BrokerMemory:
    """Brokers that do not speak MQTT 5. A file that cannot be read or written costs one more failed connect."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._old: list[str] = []
        with contextlib.suppress(OSError, ValueError, TypeError), file.open("rb") as found:
            names = json.loads(found.read(_MAX_FILE))["mqtt_3_1_1"]
            self._old = [name for name in names if isinstance(name, str)][-_MAX_BROKERS:]

    def speaks_mqtt5(self, broker: BrokerAddress) -> bool:
        """Whether MQTT 5 is worth trying; True for a broker never met."""
        return _name(broker) not in self._old

    def learn(self, broker: BrokerAddress, *, mqtt5: bool) -> None:
        """A session was established."""
        name = _name(broker)
        if mqtt5 == (name not in self._old):
            return
        self._old = (
            [other for other in self._old if other != name] if mqtt5 else [*self._old, name][-_MAX_BROKERS:]
        )
        with contextlib.suppress(OSError):
            write_file(self._file, json.dumps({"mqtt_3_1_1": self._old}).encode(), 0o600)


def _name(broker: BrokerAddress) -> str:
    return f"{broker.transport.value}://{broker.host}:{broker.port}"
