"""The server's settings: `DIR/settings.toml`, which `fleet init` writes.

Environment variables stand above the file, and are how `fleet serve` hands its options to the processes it starts:
a database's URL may hold a password, which an argument would show to every user of the machine.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from typing_extensions import Self

from edge_runtime.errors import ConfigError
from edge_runtime.protocol.decision import RecipientName
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.protocol.vocabulary import DataClass
from fleet_server.broker_url import parse_broker_url
from fleet_server.findings import what_is_wrong
from fleet_server.paths import ServerPaths

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

DATABASE_VARIABLE = "FLEET_DATABASE"
BROKER_VARIABLE = "FLEET_BROKER"
BROKER_FILES_VARIABLE = "FLEET_BROKER_FILES"
LISTEN_VARIABLE = "FLEET_LISTEN"

_MIB = 1024 * 1024
_MAX_FILE_BYTES = 64 * 1024

Port = Annotated[int, Field(ge=0, le=65_535)]
Host = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9:.\-]+$")]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HttpSettings(_Section):
    """The HTTP API.

    Attributes:
        host: address to listen on.
        port: 0 chooses a free one.
    """

    host: Host = "0.0.0.0"  # noqa: S104 - devices reach it from outside; TLS is always on
    port: Port = 8443


class BrokerSettings(_Section):
    """The MQTT broker.

    Attributes:
        kind: `embedded` is started and supervised by the server, `external` is somebody else's.
        host: address on which the embedded one listens.
        port: MQTT over TLS of the embedded one; 0 chooses a free one.
        websocket_port: MQTT over WebSocket and TLS of the embedded one; None for none.
        url: of an external one: `mqtts://host:port`, `wss://host/path`, or `mqtt://` on loopback alone.
        protocol: MQTT version that ingest speaks; `auto` tries 5 and falls back.
        files: folder into which the files of an external one are written; None for `DIR/external`.
        reload: command with its arguments that has an external one read them anew, for instance
            `["systemctl", "reload", "mosquitto"]`; empty when it looks at the files by itself.
    """

    kind: Literal["embedded", "external"] = "embedded"
    host: Host = "0.0.0.0"  # noqa: S104 - devices reach it from outside; TLS is always on
    port: Port = 8883
    websocket_port: Port | None = None
    url: Annotated[str, Field(max_length=512)] | None = None
    protocol: Literal["auto", "5", "3.1.1"] = "auto"
    files: Annotated[str, Field(max_length=1024, pattern=r"^/")] | None = None
    reload: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=1024)], ...], Field(max_length=32)
    ] = ()

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.kind == "external" and self.url is None:
            raise ValueError("an external broker needs its url")
        if self.url is not None:
            parse_broker_url(self.url)
        return self

    @property
    def uses_tls(self) -> bool:
        """False only for an external broker on loopback that was named by `mqtt://`."""
        return self.kind == "embedded" or not (self.url or "").startswith("mqtt://")

    def address(self) -> BrokerAddress:
        """Where ingest reaches the broker. Devices are told a name of `hosts` for the embedded one."""
        if self.kind == "external" and self.url is not None:
            return parse_broker_url(self.url)
        return BrokerAddress(host="localhost", port=self.port)


class IngestSettings(_Section):
    """How events are taken in.

    Attributes:
        workers: processes; more than one needs a broker with MQTT 5 shared subscriptions.
        queue_messages, queue_bytes: bound of what was received and is not committed, per worker.
        receive_maximum: messages that an MQTT 5 broker may leave unacknowledged at one worker.
        batch_events: events in one transaction, at most.
        linger_ms: how long a transaction waits for more events.
        max_credit: bundles that one device may have in flight.
        max_ranges: settled runs beyond `high` kept for one outbox file.
        max_epochs: outbox files kept for one device.
        clock_tolerance_ms: how far a device's synchronised clock may be behind ours at a deadline.
        dead_letters, dead_letter_bytes: bound of what is kept of refused messages, of all devices together.
    """

    workers: Annotated[int, Field(ge=1, le=64)] = 1
    queue_messages: Annotated[int, Field(ge=16, le=100_000)] = (
        2000  # above what NATS leaves unacknowledged, 1024
    )
    queue_bytes: Annotated[int, Field(ge=_MIB, le=4096 * _MIB)] = 64 * _MIB
    receive_maximum: Annotated[int, Field(ge=1, le=65_535)] = 500
    batch_events: Annotated[int, Field(ge=1, le=1000)] = 1000
    linger_ms: Annotated[float, Field(ge=0, le=1000)] = 10
    max_credit: Annotated[int, Field(ge=1, le=1000)] = 20
    max_ranges: Annotated[int, Field(ge=64, le=1_000_000)] = 20_000
    max_epochs: Annotated[int, Field(ge=1, le=10_000)] = 64
    clock_tolerance_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 2000
    dead_letters: Annotated[int, Field(ge=10, le=1_000_000)] = 10_000
    dead_letter_bytes: Annotated[int, Field(ge=_MIB, le=4096 * _MIB)] = 64 * _MIB

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.receive_maximum > self.queue_messages:
            raise ValueError("receive_maximum must be at most queue_messages, or what comes would not fit in")
        return self


class EvidenceSettings(_Section):
    """What devices may upload.

    Attributes:
        quota_bytes: all evidence together.
        max_bytes: one piece.
        keep_free_bytes: nothing is taken while the disk has less than this free.
    """

    quota_bytes: Annotated[int, Field(ge=_MIB)] = 10 * 1024 * _MIB
    max_bytes: Annotated[int, Field(ge=1024, le=1024 * _MIB)] = 16 * _MIB
    keep_free_bytes: Annotated[int, Field(ge=0)] = 256 * _MIB


class RetentionSettings(_Section):
    """How long rows are kept. A key must outlive every resend of its event, or dedupe would end with it.

    Attributes:
        days: of events, their keys and evidence.
        max_ttl_days: an event that may wait longer than this is refused.
        max_offline_days: a device that was switched off this long and comes back is still deduplicated.
        held_commands_days: of commands that are done.
    """

    days: Annotated[int, Field(ge=1, le=3650)] = 90
    max_ttl_days: Annotated[int, Field(ge=1, le=3650)] = 30
    max_offline_days: Annotated[int, Field(ge=0, le=3650)] = 30
    held_commands_days: Annotated[int, Field(ge=1, le=3650)] = 30

    @model_validator(mode="after")
    def _outlives(self) -> Self:
        if self.days < self.max_ttl_days + self.max_offline_days:
            raise ValueError(
                "days must be at least max_ttl_days + max_offline_days, or resends would be stored twice"
            )
        return self


class ReleaseSettings(_Section):
    """Signed releases.

    Attributes:
        licences: SPDX ids of weights beyond the permissive ones, which somebody who answers for the fleet accepted.
        max_accuracy_drop: points of accuracy (hundredths) that a release may lose against the one before it, where
            its package states no bound of its own and its builder gave no reason.
        check_deadline_s: running the golden vectors of one package takes no longer.
        quota_bytes: files of all releases together.
        keep_free_bytes: no file is taken while the disk has less than this free.
        timestamp_hours, snapshot_days: for so long the server's own metadata is good; it is made anew after half of
            that. A device that hears nothing for longer installs nothing new, and goes on with what it runs.
    """

    licences: Annotated[
        tuple[Annotated[str, Field(min_length=2, max_length=64)], ...], Field(max_length=64)
    ] = ()
    max_accuracy_drop: Annotated[float, Field(ge=0, le=100)] = 0.5
    check_deadline_s: Annotated[int, Field(ge=10, le=3600)] = 600
    quota_bytes: Annotated[int, Field(ge=_MIB)] = 64 * 1024 * _MIB
    keep_free_bytes: Annotated[int, Field(ge=0)] = 256 * _MIB
    timestamp_hours: Annotated[int, Field(ge=1, le=24 * 30)] = 24
    snapshot_days: Annotated[int, Field(ge=1, le=90)] = 14


class RolloutSettings(_Section):
    """Staged rollouts.

    Attributes:
        approvals: `separate`: whoever wrote a rollout agrees to nothing of it, and a pause ends by another's word;
            `distinct`: nor does one person agree to both its start and its going on; `single`: for a team of one.
    """

    approvals: Literal["separate", "distinct", "single"] = "separate"


class ServerSettings(_Section):
    """Everything in `settings.toml`.

    Attributes:
        hosts: names and addresses by which devices and operators reach this server; the first is told to devices.
        recipient: which recipient of a device's policy this server is.
        accepts: classes of data that it takes: it may narrow what devices allow, never widen it.
        purposes: purposes that it takes; None for all.
        database: URL of the database; None is `DIR/fleet.db`.
    """

    version: Literal[1] = 1
    hosts: Annotated[tuple[Host, ...], Field(min_length=1, max_length=32)] = ("localhost", "127.0.0.1")
    recipient: RecipientName = "fleet"
    accepts: tuple[DataClass, ...] = (DataClass.PUBLIC, DataClass.INTERNAL, DataClass.CONFIDENTIAL)
    purposes: tuple[str, ...] | None = None
    database: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    http: HttpSettings = HttpSettings()
    broker: BrokerSettings = BrokerSettings()
    ingest: IngestSettings = IngestSettings()
    evidence: EvidenceSettings = EvidenceSettings()
    retention: RetentionSettings = RetentionSettings()
    releases: ReleaseSettings = ReleaseSettings()
    rollouts: RolloutSettings = RolloutSettings()

    _paths: ServerPaths = PrivateAttr(default=ServerPaths(Path()))

    @field_validator("accepts")
    @classmethod
    def _known(cls, accepts: tuple[DataClass, ...]) -> tuple[DataClass, ...]:
        if DataClass.UNKNOWN in accepts:
            raise ValueError("what is of unknown class is never sent, so it cannot be accepted")
        return accepts

    @property
    def paths(self) -> ServerPaths:
        """Where the files of this data directory lie."""
        return self._paths

    @property
    def database_url(self) -> str:
        """URL of the database. It may hold a password: it belongs in no log."""
        return self.database or f"sqlite:///{self.paths.database}"

    @classmethod
    def at(cls, directory: Path, **values: Any) -> Self:
        """Settings made in code, for a data directory; nothing is read or written.

        Raises:
            ConfigError: a value is out of its range.
        """
        return _validated(cls, values, ServerPaths(directory.expanduser().absolute()), "settings")

    @classmethod
    def load(cls, directory: Path, environment: Mapping[str, str] | None = None) -> Self:
        """Read `DIR/settings.toml`.

        Above it stand the variables FLEET_DATABASE, FLEET_BROKER, FLEET_BROKER_FILES and FLEET_LISTEN.

        Args:
            directory: DIR.
            environment: the process's own when None.

        Raises:
            ConfigError: there is no such file, it is no TOML, or a value in it cannot be used; the text says where,
                and never repeats a value.
        """
        paths = ServerPaths(directory.expanduser().absolute())
        values = _read(paths.settings)
        _override(values, os.environ if environment is None else environment)
        return _validated(cls, values, paths, str(paths.settings))


SettingsT = TypeVar("SettingsT", bound=ServerSettings)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(
            f"{path.parent} is no data directory of a fleet server: make one with fleet init"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path} is longer than {_MAX_FILE_BYTES} bytes")
    try:
        found: dict[str, Any] = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        # its text names line and column, and no value
        raise ConfigError(f"{path} is not TOML: {error}") from None
    return found


def _override(values: dict[str, Any], environment: Mapping[str, str]) -> None:
    if database := environment.get(DATABASE_VARIABLE):
        values["database"] = database
    if broker := environment.get(BROKER_VARIABLE):
        section = _section(values, "broker")
        section.update({"kind": "external", "url": broker})
    if files := environment.get(BROKER_FILES_VARIABLE):
        _section(values, "broker")["files"] = files
    if listen := environment.get(LISTEN_VARIABLE):
        host, _, port = listen.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"{LISTEN_VARIABLE} is HOST:PORT, for example 0.0.0.0:8443")
        _section(values, "http").update({"host": host.strip("[]"), "port": int(port)})


def _section(values: dict[str, Any], name: str) -> dict[str, Any]:
    found = values.setdefault(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"settings: {name} is a table")
    return found


def _validated(kind: type[SettingsT], values: dict[str, Any], paths: ServerPaths, where: str) -> SettingsT:
    try:
        settings = kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "settings"
        raise ConfigError(f"{where}: {place} {what_is_wrong(first)}") from None
    settings._paths = paths
    return settings
