"""The configuration file of nats-server, as text: a pure function of who may connect and where files lie."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fleet_server.broker.users import BrokerUser, permissions

MAX_PAYLOAD_BYTES = 192 * 1024
"""The protocol's largest payload is 128 KiB; the rest is room for a will message and headers."""

MAX_SUBSCRIPTIONS = 100_000
"""Of all devices together, one for each. NATS 2.15 allows 1,000 by itself: the 1,001st device got no receipt."""

_QOS1_DELIVERY = "$MQTT.sub.>"


@dataclass(frozen=True, slots=True)
class NatsListen:
    """Where nats-server listens and stores.

    Attributes:
        host, port: MQTT over TLS.
        websocket_port: MQTT over WebSocket and TLS; None for none.
        store: folder of the JetStream store.
        log: file of its log, kept at 8 MiB and two older ones; None for stderr.
        max_store_bytes: the store never takes more.
    """

    host: str
    port: int
    store: Path
    certificate: Path
    key: Path
    authority: Path
    websocket_port: int | None = None
    log: Path | None = None
    max_store_bytes: int = 4 << 30


def nats_config(listen: NatsListen, users: Iterable[BrokerUser]) -> str:
    """The configuration: TLS with a client certificate always, one user per certificate, a synced store."""
    tls = _tls(listen)
    websocket = ""
    if listen.websocket_port is not None:
        websocket = f"websocket {{\n  host: {_q(listen.host)}, port: {listen.websocket_port}\n{tls}}}\n"
    entries = "\n".join(_user(user) for user in sorted(set(users)))
    return (
        "# Written by the fleet server; changes are overwritten.\n"
        "server_name: fleet\n"
        # NATS' own protocol cannot be switched off: any port of loopback, and no user below may speak it
        "host: 127.0.0.1, port: -1\n"
        f"{tls.replace('  ', '', 1)}"
        f"{_log(listen)}"
        f"max_payload: {MAX_PAYLOAD_BYTES}\n"
        "jetstream {\n"
        f"  store_dir: {_q(str(listen.store))}\n"
        f"  max_mem: 64MB, max_file: {listen.max_store_bytes}\n"
        "  sync_interval: always\n"  # a message is on the disk before the PUBACK
        f"  limits {{ default_max_consumers: {MAX_SUBSCRIPTIONS} }}\n"
        "}\n"
        f"mqtt {{\n  host: {_q(listen.host)}, port: {listen.port}\n{tls}}}\n"
        f"{websocket}"
        f"authorization {{ users = [\n{entries}\n] }}\n"
    )


def _log(listen: NatsListen) -> str:
    if listen.log is None:
        return ""
    return (
        f"log_file: {_q(str(listen.log))}, logfile_size_limit: 8MB, logfile_max_num: 3, logtime_utc: true\n"
    )


def _tls(listen: NatsListen) -> str:
    return (
        "  tls {\n"
        f"    cert_file: {_q(str(listen.certificate))}\n"
        f"    key_file: {_q(str(listen.key))}\n"
        f"    ca_file: {_q(str(listen.authority))}\n"
        "    verify_and_map: true, timeout: 10\n"
        "  }\n"
    )


def _user(user: BrokerUser) -> str:
    allowed = permissions(user)
    publish = [subject for topic in allowed.publish for subject in _subjects(topic)]
    subscribe = [subject for topic in allowed.subscribe for subject in _subjects(topic)]
    return (
        f'  {{ user: {_q(user.distinguished_name)}, allowed_connection_types: ["MQTT", "MQTT_WS"], permissions: {{ '
        f"publish: {json.dumps(publish)}, subscribe: {json.dumps([*subscribe, _QOS1_DELIVERY])} }} }}"
    )


def _subjects(topic: str) -> list[str]:
    """NATS subjects of an MQTT filter. `a/#` also means `a` itself, which `a.>` does not."""
    subject = topic.replace("/", ".").replace("+", "*")
    if subject.endswith(".#"):
        return [subject[:-2], subject[:-1] + ">"]
    return [subject]


def _q(text: str) -> str:
    return json.dumps(text)  # NATS' strings take the same escapes
