"""Files for a mosquitto 2 that others run: its access list, and a configuration to begin with."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fleet_server.broker.nats_config import MAX_PAYLOAD_BYTES
from fleet_server.broker.users import BrokerUser, permissions


@dataclass(frozen=True, slots=True)
class MosquittoFiles:
    """Where mosquitto finds things.

    Attributes:
        revoked: the authority's revocation list; mosquitto reads it anew on SIGHUP.
        store: folder of its database.
        system_user: whom it becomes when root starts it.
    """

    host: str
    port: int
    certificate: Path
    key: Path
    authority: Path
    revoked: Path
    access: Path
    store: Path
    system_user: str = "mosquitto"


def mosquitto_config(files: MosquittoFiles) -> str:
    """A mosquitto.conf: client certificates always, the user is the certificate's common name."""
    return f"""\
user {files.system_user}
listener {files.port} {files.host}
allow_anonymous false
require_certificate true
use_identity_as_username true
tls_version tlsv1.2
cafile {files.authority}
certfile {files.certificate}
keyfile {files.key}
crlfile {files.revoked}
acl_file {files.access}
persistence true
persistence_location {files.store}/
autosave_on_changes true
autosave_interval 1
set_tcp_nodelay true
max_packet_size {MAX_PAYLOAD_BYTES}
max_inflight_messages 500
max_queued_messages 20000
max_queued_bytes 67108864
"""


def access_list(users: Iterable[BrokerUser]) -> str:
    """The ACL file: every user by name. A name that is not in it may connect but neither write nor read."""
    lines = ["# Written by the fleet server; changes are overwritten."]
    for name in sorted({user.name for user in users}):
        allowed = permissions(BrokerUser(name, ""))
        lines += ["", f"user {name}"]
        lines += [f"topic write {topic}" for topic in allowed.publish]
        lines += [f"topic read {topic}" for topic in allowed.subscribe]
    return "\n".join(lines) + "\n"
