"""`edge-runtime enrol`: make this device a member of a fleet."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.errors import ConfigError

if TYPE_CHECKING:
    from edge_runtime.identity import Identity
    from edge_runtime.protocol.enrolment import EnrolmentToken
    from edge_runtime.state import StateDirectory

EXIT_PENDING = 3
_MAX_TOKEN_BYTES = 4096
_SERIAL_FILES = ("/sys/firmware/devicetree/base/serial-number", "/sys/class/dmi/id/product_serial")


def enrol(
    server: Annotated[str, typer.Option(envvar="EDGE_RUNTIME_SERVER", help="Address: https://host:port.")],
    token: Annotated[
        str,
        typer.Option(help="From `fleet device invite`; @FILE reads a file, - reads stdin."),
    ],
    state: Annotated[
        Path | None, typer.Option(envvar="EDGE_RUNTIME_STATE", help="State directory of this device.")
    ] = None,
    serial: Annotated[
        str | None, typer.Option(help="Hardware serial number; the board's own when not given.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Wished id, with --again the present one; the server decides.")
    ] = None,
    proxy: Annotated[
        str | None, typer.Option(envvar="EDGE_RUNTIME_PROXY", help="HTTP proxy: http://host:port.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, max=600, help="Seconds for all of it.")] = 30.0,
    again: Annotated[
        bool, typer.Option("--again", help="Enrol although this device is enrolled already.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Make this device a member of a fleet: it makes a key, and the server signs who it is.

    While an operator must accept the device first, the command leaves with 3; run it again afterwards. A device
    that is enrolled with this token already asks whether the server still takes it, and says so where it does not.
    The token on the command line is seen by every user of the machine: prefer @FILE.
    """
    from edge_runtime.identity import Identity
    from edge_runtime.identity import enrol as enrol_device
    from edge_runtime.identity.client import checked_url
    from edge_runtime.protocol.enrolment import EnrolmentState, EnrolmentToken, TokenError
    from edge_runtime.state import StateDirectory

    try:
        read = EnrolmentToken.parse(_token(token))
    except TokenError as error:
        raise ConfigError(str(error)) from None
    _check_words(serial, device)
    where = StateDirectory.find(state)
    present = Identity.load(where)
    if present is not None and not again:
        if (present.server_url, present.token_id) != (checked_url(server), read.id):
            raise ConfigError(
                f"this device is enrolled as {present.device} at {present.server_url}: --again enrols it anew"
            )
        return _stands(present, read, serial or board_serial(), timeout, proxy, as_json=as_json)
    # The outbox's numbers belong to the id under which they were sent: enrolled anew, the device asks for its own.
    wish = device or (None if present is None else present.device)
    answer = enrol_device(
        server,
        read,
        where,
        serial=serial or board_serial(),
        device=wish,
        deadline_s=timeout,
        proxy=proxy,
        take_root=lambda root: _take_root(where, root),
    )
    if answer.state is EnrolmentState.PENDING:
        return _waits(answer.device, as_json=as_json)
    made = Identity.load(where)
    assert made is not None
    _say(made, as_json=as_json)
    return 0


def _take_root(where: "StateDirectory", root: str) -> None:
    """Begin to trust the fleet's releases. Events need none of it: what is wrong here is said and stops nothing."""
    from edge_runtime.cli.report import say
    from edge_runtime.updates.problems import UpdateRefused
    from edge_runtime.updates.trust.bootstrap import write_root

    try:
        kept = write_root(where.ensure().updates, root.encode()) is None
    except UpdateRefused as error:
        say(f"the fleet's root of releases was not taken, and this device will take no release: {error}")
        return
    if kept:
        say(
            "this device trusts another root of releases than this fleet's, and keeps it; "
            "edge-runtime update trust FILE --replace changes that"
        )


def _stands(
    present: "Identity",
    token: "EnrolmentToken",
    serial: str | None,
    timeout_s: float,
    proxy: str | None,
    *,
    as_json: bool,
) -> int:
    """What an enrolled device is told: what the server says of it now, where it can be asked."""
    from edge_runtime.cli.report import say
    from edge_runtime.identity import ServerUnreachable, standing
    from edge_runtime.protocol.enrolment import EnrolmentState

    try:
        found = standing(present, token, serial=serial, deadline_s=timeout_s, proxy=proxy)
    except ServerUnreachable as error:
        say(f"enrolled before; whether the fleet still takes this device is not known now: {error}")
        found = None
    if found is EnrolmentState.PENDING:
        return _waits(present.device, as_json=as_json)
    _say(present, as_json=as_json)
    return 0


def _waits(device: str, *, as_json: bool) -> int:
    if as_json:
        typer.echo(json.dumps({"state": "pending", "device": device}))
    else:
        typer.echo(f"{device} waits for an operator (fleet device approve {device}): then run this again")
    return EXIT_PENDING


def board_serial() -> str | None:
    """The serial number that the board gives itself, or None where it gives none that can be used."""
    for place in _SERIAL_FILES:
        try:
            found = Path(place).read_bytes()[:256].decode("ascii", errors="ignore").strip("\x00 \r\n\t")
        except OSError:
            continue
        if _is_serial(found) and found.strip("0") and found.lower() not in ("none", "default", "unknown"):
            return found
    return None


def _token(text: str) -> str:
    """The token itself, from the command line, a file or stdin."""
    if text == "-":
        return sys.stdin.read(_MAX_TOKEN_BYTES)
    if not text.startswith("@"):
        return text
    try:
        with Path(text[1:]).open(encoding="ascii", errors="replace") as file:
            return file.read(_MAX_TOKEN_BYTES)
    except OSError as error:
        raise ConfigError(f"--token {text[:120]}: {error.strerror}") from None


def _check_words(serial: str | None, device: str | None) -> None:
    from edge_runtime.protocol.topics import DEVICE_PATTERN

    if serial is not None and not _is_serial(serial):
        raise ConfigError("--serial has 1 to 64 printable ASCII characters without blanks")
    if device is not None and not re.fullmatch(DEVICE_PATTERN, device):
        raise ConfigError("--device has 1 to 63 lower-case letters, digits and inner hyphens")


def _is_serial(text: str) -> bool:
    return 1 <= len(text) <= 64 and all("\x21" <= sign <= "\x7e" for sign in text)


def _say(identity: "Identity", *, as_json: bool) -> None:
    """What this device is now."""
    from datetime import datetime, timezone

    ends = datetime.fromtimestamp(identity.not_after_ms / 1000, tz=timezone.utc)
    if as_json:
        found = {
            "state": "active",
            "device": identity.device,
            "server": identity.server_url,
            "broker": identity.broker.model_dump(mode="json"),
            "not_after": ends.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "identity": str(identity.state.identity),
        }
        typer.echo(json.dumps(found))
        return
    typer.echo(
        f"enrolled as {identity.device} at {identity.server_url}\n"
        f"  certificate  until {ends:%Y-%m-%d %H:%M} UTC, renewed by the device before\n"
        f"  broker       {identity.broker.host}:{identity.broker.port}\n"
        f"  files        {identity.state.identity}"
    )
