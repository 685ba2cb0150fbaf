"""Settings of the uplink's process, as JSON: strict, every value with its range.

They come on the command line, from a file or on standard input. Every user of the machine reads a command line, so
that a proxy's password is refused there.
"""

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from edge_runtime.errors import ConfigError
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.uplink.backoff import ReconnectSettings
from edge_runtime.uplink.watchdog import RetrySettings

Seconds = Annotated[float, Field(gt=0, le=86_400)]

_MAX_BYTES = 64 * 1024
_LINGER_MS = {"lan": 20, "lte": 5_000}
_PIECE_BYTES = {"lan": 256 * 1024, "lte": 32 * 1024}
_SYNC_CAP_S = {"lan": 30.0, "lte": 300.0}
_HALF_LIFE_S = {"lan": 10.0, "lte": 60.0}


class Profile(str, Enum):
    """What the link costs: `lan` sends at once, `lte` waits for company and counts bytes."""

    LAN = "lan"
    LTE = "lte"


class ProtocolChoice(str, Enum):
    """MQTT's version; `auto` begins with 5 and remembers where only 3.1.1 worked."""

    AUTO = "auto"
    V5 = "5"
    V311 = "3.1.1"


class UplinkSettings(BaseModel):
    """All settings; each has a default.

    Attributes:
        profile: of the link.
        daily_bytes: for events, evidence and downloads together, a day; None is no limit.
        critical_overdraft: share of `daily_bytes` that events of the top severity may take beyond it.
        proxy: HTTP proxy that is asked to CONNECT to the broker, `http://[user:password@]host:port`.
        broker: instead of the address that enrolment gave.
        server_url: instead of the one that enrolment gave, for evidence.
        protocol: MQTT's version.
        linger_ms: how long an event may wait for company; None takes the profile's (20 ms, 5 s).
        window: bundles in flight at most.
        fleet: about how many devices share the broker; spreads their return after its loss.
        keepalive_s: of the MQTT session.
        connect_timeout_s: for the network, TLS and the broker's first answer together.
        base_s, cap_s, stable_s, short_s, quarrel_s: of the waits between connects, see `ReconnectSettings`.
        retry_first_s, retry_cap_s, silence_s: of receipts, see `RetrySettings`.
        sync_retry_s: a sync that was not answered is repeated after so long, doubling to `sync_cap_s`; None
            takes the profile's (30 s, 300 s).
        state_retry_first_s, state_retry_cap_s: a terminal state report that is not settled is sent again after so
            long, doubling.
        health_period_s: between two health messages.
        report_period_s: how often outcomes and held items are looked at.
        outbox_pause_s: how long to leave an outbox alone that does not answer.
        stop_s: how long a clean end may take.
        will_delay_s: after the connection broke, before the broker says so (MQTT 5).
        session_expiry_s: how long the broker keeps commands for a device that is away (MQTT 5).
        ramp: whether bundles start slowly after a connect.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    profile: Profile = Profile.LAN
    daily_bytes: Annotated[int, Field(ge=10_000, le=1 << 50)] | None = None
    critical_overdraft: Annotated[float, Field(ge=0, le=1)] = 0.2
    proxy: Annotated[str, Field(max_length=512)] | None = Field(default=None, repr=False)
    broker: BrokerAddress | None = None
    server_url: Annotated[str, Field(max_length=512, pattern=r"^https://")] | None = None
    protocol: ProtocolChoice = ProtocolChoice.AUTO
    linger_ms: Annotated[int, Field(ge=0, le=60_000)] | None = None
    window: Annotated[int, Field(ge=1, le=20)] = 20
    fleet: Annotated[int, Field(ge=1, le=10_000_000)] = 1
    keepalive_s: Annotated[int, Field(ge=5, le=1200)] = 30
    connect_timeout_s: Seconds = 15.0
    base_s: Seconds = 1.0
    cap_s: Seconds = 300.0
    stable_s: Seconds = 60.0
    short_s: Seconds = 10.0
    quarrel_s: Seconds = 60.0
    retry_first_s: Seconds = 10.0
    retry_cap_s: Seconds = 300.0
    silence_s: Seconds = 30.0
    sync_retry_s: Seconds = 5.0
    sync_cap_s: Seconds | None = None
    state_retry_first_s: Seconds = 30.0
    state_retry_cap_s: Seconds = 3600.0
    health_period_s: Seconds = 60.0
    report_period_s: Seconds = 2.0
    outbox_pause_s: Seconds = 1.0
    stop_s: Seconds = 4.0
    will_delay_s: Annotated[int, Field(ge=0, le=3600)] = 10
    session_expiry_s: Annotated[int, Field(ge=0, le=86_400)] = 3600
    ramp: bool = True

    @field_validator("proxy")
    @classmethod
    def _is_proxy(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            if parts.scheme != "http" or not parts.hostname or parts.port is None:
                raise ValueError("write http://host:port or http://user:password@host:port")
        return value

    @classmethod
    def from_argument(cls, word: str) -> "UplinkSettings":
        """Settings as a command line gives them.

        Args:
            word: JSON, `@FILE` with JSON in it, or `-` for JSON on standard input.

        Raises:
            ConfigError: as `parse`; the file cannot be read; or a password stands on the command line.
        """
        if word == "-":
            return cls.parse(sys.stdin.read(_MAX_BYTES))
        if word.startswith("@"):
            try:
                with Path(word[1:]).open(encoding="utf-8", errors="replace") as file:
                    return cls.parse(file.read(_MAX_BYTES))
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "is no name of a file"
                raise ConfigError(f"uplink settings: {word[1:][:120]}: {reason}") from None
        found = cls.parse(word)
        if found.proxy is not None and urlsplit(found.proxy).password is not None:
            raise ConfigError(
                "uplink settings: every user reads the proxy's password on a command line: "
                "use --settings - or --settings @FILE"
            )
        return found

    @classmethod
    def parse(cls, text: str) -> "UplinkSettings":
        """Settings from JSON.

        Raises:
            ConfigError: not JSON, or a setting is wrong; one sentence that names it and holds no value.
        """
        try:
            return cls.model_validate(json.loads(text))
        except (ValueError, RecursionError) as error:
            if not isinstance(error, ValidationError):
                raise ConfigError("uplink settings are not JSON") from None
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "settings"
            raise ConfigError(f"uplink settings: {where}: {first['msg']}") from None

    @property
    def linger(self) -> int:
        """Milliseconds that an event below the top severity may wait for company."""
        return _LINGER_MS[self.profile.value] if self.linger_ms is None else self.linger_ms

    @property
    def sync_cap(self) -> float:
        """Seconds between two syncs at most, while the server does not answer."""
        return _SYNC_CAP_S[self.profile.value] if self.sync_cap_s is None else self.sync_cap_s

    @property
    def piece_bytes(self) -> int:
        """Bytes of evidence in one request."""
        return _PIECE_BYTES[self.profile.value]

    @property
    def half_life_s(self) -> float:
        """Of the link's signals."""
        return _HALF_LIFE_S[self.profile.value]

    @property
    def reconnect(self) -> ReconnectSettings:
        """Bounds of the waits between connects."""
        return ReconnectSettings(
            base_s=self.base_s,
            cap_s=self.cap_s,
            stable_s=self.stable_s,
            short_s=self.short_s,
            quarrel_s=self.quarrel_s,
            fleet=self.fleet,
        )

    @property
    def retry(self) -> RetrySettings:
        """Bounds of the waits for receipts."""
        return RetrySettings(first_s=self.retry_first_s, cap_s=self.retry_cap_s, silence_s=self.silence_s)
