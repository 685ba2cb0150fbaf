"""How events leave the device, if at all: policy, redaction, the queue and the link to the fleet server.

Without this section nothing leaves: events go to a file only. The names are those of the settings that the outbox's
and the uplink's processes take; `outbox_settings` and `uplink_settings` give them as plain data.
"""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from edge_runtime.config.base import (
    ConfigModel,
    CredentialText,
    Fraction,
    Integer,
    Label,
    Name,
    PositiveSeconds,
    Real,
    Text,
)
from edge_runtime.config.url import http_url, proxy_url

MIB = 1024 * 1024

_Bytes = Annotated[Integer, Field(ge=64 * 1024, le=1 << 40)]


def _version(value: Any) -> Any:
    return "5" if value == 5 and not isinstance(value, bool) else value  # as YAML reads `protocol: 5`


def _https(value: str) -> str:
    http_url(value)
    parts = urlsplit(value)
    if parts.scheme.lower() != "https":
        raise ValueError("must begin with https://: evidence never travels in the clear")
    if parts.username is not None:
        raise ValueError("must hold no credentials: the device's certificate says who it is")
    return value


class BlurRedaction(ConfigModel):
    """Of a crop that may leave redacted, at most 4 x 4 coarse cells of colour remain.

    Attributes:
        kind: `blur`.
    """

    kind: Literal["blur"] = "blur"


class RegionsRedaction(ConfigModel):
    """What a model recognises is painted over; the rest of the crop stays as it is.

    Attributes:
        kind: `regions`.
        model: one of `models`, such as a detector of faces or persons.
        labels: which of its labels are painted over; empty means all.
        min_score: everything that scores this much is painted over; low, because what is missed is seen.
        margin: added around each box, as a fraction of its size.
        nothing_found: what to do with a crop in which the model finds nothing, which proves nothing: `hold` its
            event for a person, or `blur` the whole crop.
        timeout: seconds that one look may take; then the event is held.
    """

    kind: Literal["regions"]
    model: Name
    labels: tuple[Label, ...] = ()
    min_score: Annotated[Fraction, Field(le=0.5)] = 0.1
    margin: Annotated[Real, Field(ge=0, le=4)] = 0.3
    nothing_found: Literal["hold", "blur"] = "hold"
    timeout: PositiveSeconds = 5.0


RedactionConfig = Annotated[BlurRedaction | RegionsRedaction, Field(discriminator="kind")]


class OutboxConfig(ConfigModel):
    """Limits of the queue on disk; every event in it ends in exactly one counted fate.

    Attributes:
        quota_bytes: all queued events together.
        held_quota_bytes: all events together that wait for a person.
        evidence_quota_bytes: crops that wait for a person or an upload.
        reserve_share: part of `quota_bytes` that only critical events may use.
        evidence_keep: seconds after which a crop that was not uploaded is given up.
        decisions_kept: newest decision receipts that are kept on the device; also how far back duplicates are
            recognised.
    """

    quota_bytes: _Bytes = 64 * MIB
    held_quota_bytes: _Bytes = 16 * MIB
    evidence_quota_bytes: _Bytes = 256 * MIB
    reserve_share: Annotated[Fraction, Field(le=0.9)] = 0.1
    evidence_keep: Annotated[Real, Field(ge=1, le=400 * 86_400)] = 7 * 86_400.0
    decisions_kept: Annotated[Integer, Field(ge=1024, le=1_000_000)] = 10_000


class BrokerConfig(ConfigModel):
    """A broker to use instead of the one that enrolment named. TLS always, with the device's certificate.

    Attributes:
        host: name or address.
        port: of MQTT over TLS, or of WebSockets over TLS.
        transport: `tcp`, or `websockets` where only port 443 gets through.
        path: of the WebSocket.
    """

    host: Annotated[Text, Field(max_length=253)]
    port: Annotated[Integer, Field(ge=1, le=65_535)] = 8883
    transport: Literal["tcp", "websockets"] = "tcp"
    path: Annotated[Text, Field(max_length=128)] = "/mqtt"


class UplinkConfig(ConfigModel):
    """The link to the fleet server.

    Attributes:
        profile: `lan` sends at once; `lte` lets all but critical events wait seconds for company.
        daily_bytes: for events, evidence and downloads together, a day; without one there is no limit.
        critical_overdraft: share of `daily_bytes` that critical events may take beyond it.
        proxy: HTTP proxy to go through, `http://host:port`; a user and a password belong into a secret file.
        broker: instead of the one that enrolment named.
        server_url: instead of the one that enrolment named, for evidence.
        protocol: MQTT's version; `auto` begins with 5 and falls back to 3.1.1.
        fleet: about how many devices share the broker; spreads their return after its loss.
        health_period: seconds between two health messages.
        reconnect_cap: longest wait between two attempts to connect, in seconds; every wait is drawn at random below
            a ceiling that doubles up to this. A large fleet needs a long one.
    """

    profile: Literal["lan", "lte"] = "lan"
    daily_bytes: Annotated[Integer, Field(ge=10_000, le=1 << 50)] | None = None
    critical_overdraft: Fraction = 0.2
    proxy: Annotated[CredentialText, Field(max_length=512), AfterValidator(proxy_url)] | None = None
    broker: BrokerConfig | None = None
    server_url: Annotated[Text, Field(max_length=512), AfterValidator(_https)] | None = None
    protocol: Annotated[Literal["auto", "5", "3.1.1"], BeforeValidator(_version)] = "auto"
    fleet: Annotated[Integer, Field(ge=1, le=10_000_000)] = 1
    health_period: Annotated[Real, Field(gt=0, le=86_400)] = 60.0
    reconnect_cap: Annotated[Real, Field(ge=1, le=86_400)] = 300.0


class DeliveryConfig(ConfigModel):
    """How events leave the device: only what the policy permits, and nothing without one.

    Attributes:
        state: the state directory, relative to the configuration file; `--state` and EDGE_RUNTIME_STATE come first.
        policy: the policy file, relative to the configuration file; `policy.yaml` in the state directory without
            one.
        ring_bytes: events that wait in memory for a decision, or for the outbox to come back.
        ring_events: number of such events.
        redaction: how crops are made that may leave redacted; a blur of the whole crop without one.
        outbox: limits of the queue on disk.
        uplink: the link to the fleet server.
    """

    state: Text | None = None
    policy: Text | None = None
    ring_bytes: Annotated[Integer, Field(ge=64 * 1024, le=1 << 30)] = 4 * MIB
    ring_events: Annotated[Integer, Field(ge=16, le=1_000_000)] = 4096
    redaction: RedactionConfig = BlurRedaction()
    outbox: OutboxConfig = OutboxConfig()
    uplink: UplinkConfig = UplinkConfig()

    def outbox_settings(self) -> dict[str, Any]:
        """Settings of the outbox's process, as its command line takes them."""
        settings = self.outbox.model_dump(mode="json")
        settings["evidence_keep_s"] = settings.pop("evidence_keep")
        return settings

    def uplink_settings(self) -> dict[str, Any]:
        """Settings of the uplink's process; the proxy's password is in it, so it must not be logged."""
        settings = self.uplink.model_dump(mode="json", exclude_none=True)
        settings["health_period_s"] = settings.pop("health_period")
        settings["cap_s"] = settings.pop("reconnect_cap")
        if self.uplink.proxy is not None:
            settings["proxy"] = str(self.uplink.proxy)  # a dump masks it
        return settings
