"""paho's client as ingest needs it: it reads no properties of what comes, and it says when its thread is gone.

Properties of MQTT 5 are any publisher's. paho ends the connection over text in them that the broker let pass, and a
retained message comes again with every subscription: one device would keep the server away for good.
"""

from collections.abc import Callable
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import MQTTErrorCode

_QOS = 0x06


class IngestClient(mqtt.Client):
    """One connection.

    Args:
        ended: called on paho's thread when that ends, with the type of the error that ended it, or None.
        arguments: paho's own.

    Attributes:
        refused: numbers of messages that the broker refused; paho calls them published.
    """

    def __init__(self, ended: Callable[[str | None], object], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._ended = ended
        self.refused: set[int] = set()

    def loop_forever(self, timeout: float = 1.0, retry_first_connection: bool = False) -> MQTTErrorCode:  # noqa: FBT001, FBT002 - paho's signature
        """See paho; whatever goes wrong, somebody hears of it."""
        why: str | None = None
        try:
            return super().loop_forever(timeout, retry_first_connection)
        except Exception as error:  # noqa: BLE001 - its text may hold what a device sent
            why = type(error).__name__
            return MQTTErrorCode.MQTT_ERR_UNKNOWN
        finally:
            self._ended(why)

    def _handle_publish(self) -> MQTTErrorCode:
        if self._protocol == mqtt.MQTTv5:
            found = self._in_packet
            found["packet"] = without_properties(found["packet"], numbered=bool(found["command"] & _QOS))
        return super()._handle_publish()


def without_properties(packet: bytearray, *, numbered: bool) -> bytearray:
    """An MQTT 5 PUBLISH without its properties, skipped by their length.

    Args:
        packet: what follows its fixed header.
        numbered: whether it has a packet number, which it has beyond QoS 0.

    Returns:
        The packet with no properties; as it came where its lengths do not fit, for paho to refuse.
    """
    at = 2 + int.from_bytes(packet[:2], "big") + (2 if numbered else 0)
    size = 0
    for place, byte in enumerate(packet[at : at + 4]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            end = at + place + 1 + size
            if size and end <= len(packet):
                return packet[:at] + b"\0" + packet[end:]
            break
    return packet
