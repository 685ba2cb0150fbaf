"""Enrolled parties of a running server, good or bad, that speak MQTT themselves."""

import contextlib
import itertools
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from fleet_server.authority.authority import private_pem
from fleet_server.cli.client import FleetClient
from fleet_server.cli.target import LocalTarget
from sim.road import Server
from tests.rigs.bare_mqtt import PUBACK, BareClient, bare, publish
from tests.rigs.brokers import accepts
from tests.rigs.deliveries import DeviceRig
from tests.rigs.enrolments import Asker, serial_of
from tests.rigs.pki import Credentials
from tests.rigs.roads import wait_for

_numbers = itertools.count(1)


class Operator:
    """The API of a server, in this process: ten times faster than a command."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def get(self, path: str, **parameters: Any) -> Any:
        """GET with the admin's token."""
        with self._client() as client:
            return client.get(path, **parameters)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """POST with the admin's token."""
        with self._client() as client:
            return client.post(path, body)

    @contextlib.contextmanager
    def _client(self) -> Iterator[FleetClient]:
        client = FleetClient.to(LocalTarget(self.server.data))
        try:
            yield client
        finally:
            client.close()


@dataclass
class Party:
    """A device with a good certificate.

    Attributes:
        rig: makes its messages.
    """

    server: Server
    credentials: Credentials
    rig: DeviceRig

    @classmethod
    def enrolled(cls, server: Server, name: str | None = None) -> "Party":
        """A new device that the broker lets in."""
        name = name or f"party-{next(_numbers)}"
        token = Operator(server).post("/v1/invitations", {"device": name})["token"]
        found = cls(server, admitted(server, name, token), DeviceRig(name))
        assert wait_for(lambda: accepts(server.broker[1], found.credentials), 15)
        if (
            server.mosquitto is not None
        ):  # it lets any certificate of the authority in, before it knows its rights
            found.deliver()
        return found

    @property
    def name(self) -> str:
        return self.credentials.name

    @contextlib.contextmanager
    def bare(self, **options: Any) -> Iterator[BareClient]:
        """A session of bare bytes, broken at the end."""
        with bare(self.server.broker[1], self.credentials) as client:
            assert client.opened(**options)
            yield client

    def send(self, *messages: tuple[str, bytes], retain: bool = False) -> None:
        """Publish at QoS 1 in a session of its own, each after the acknowledgement of the one before."""
        with self.bare() as client:
            for number, (topic, payload) in enumerate(messages, 1):
                client.send(publish(topic, payload, retain=retain, mid=number))
                answer = client.packet(20)
                assert answer is not None, topic
                assert answer[0] == PUBACK

    def deliver(self, within_s: float = 30.0) -> None:
        """Send one new event, again and again, until the server has it: the service is up."""
        rule = f"proof-{next(_numbers)}"
        message = self.rig.bundle(self.rig.item(event={"rule": rule}))
        operator = Operator(self.server)
        deadline = time.monotonic() + within_s
        while True:
            with contextlib.suppress(AssertionError, OSError):
                self.send(message)
            if wait_for(lambda: len(operator.get("/v1/events", rule=rule)["events"]) == 1, 0.5):
                return
            assert time.monotonic() < deadline, self.server.process.log.read_text()[-2000:]


def admitted(server: Server, name: str, token: str, *, state: str = "active") -> Credentials:
    """Enrol over HTTPS with a new key; the files of the party, without a certificate while it is pending."""
    asker, authority = Asker(name), server.data / "authority" / "ca.pem"
    context = ssl.create_default_context(cafile=str(authority))
    with httpx.Client(base_url=server.url, verify=context, trust_env=False, timeout=30) as client:
        answer = client.post("/v1/enrolment", json=asker.request(token).model_dump(mode="json"))
    assert answer.status_code == 200, answer.text
    assert answer.json()["state"] == state
    number = next(_numbers)
    certificate, key = (server.data.parent / f"{name}-{number}.{end}" for end in ("pem", "key"))
    key.write_bytes(private_pem(asker.key))
    if state == "active":
        certificate.write_text(answer.json()["certificate"])
    serial = serial_of(certificate.read_text()) if state == "active" else ""
    return Credentials(name, serial, certificate, key, authority)
