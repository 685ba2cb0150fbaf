"""The forms in which one device is shown."""

from typing import Any

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.cli.balance import write_balance
from fleet_server.cli.output import clean, when, write, write_table
from fleet_server.in_words import span


def presence_of(device: Any, now_ms: int) -> str:
    """Whether a device is there, and for how long."""
    if device["presence"] is None:
        return "never"
    return f"{device['presence']} {span(now_ms - device['since_ms'])}"


def show_device(found: Any) -> None:
    """One device on stdout: who it is, its certificates, what it last said, and its balance."""
    now = SystemClock().wall().unix_ns // NS_PER_MS
    presence = presence_of(found, now) + (f" ({found['reason']})" if found["reason"] else "")
    rows: list[tuple[str, object]] = [
        ("device", found["id"]),
        ("state", found["state"]),
        ("serial", found["serial"] or "-"),
        ("labels", " ".join(f"{k}={v}" for k, v in sorted(found["labels"].items())) or "-"),
        ("presence", presence),
        ("runtime", found["runtime"] or "-"),
        ("enrolled", f"{when(found['created_ms'])} UTC"),
    ]
    if found["pending_key"]:
        rows.append(("waiting key", f"{found['pending_key']}"))
    health = found["health"]
    if health is not None:
        link = health["link"]
        trip = link.get("round_trip_ms")
        rows += [
            ("said", f"{span(now - found['health_ms'])} ago, up for {span(int(health['uptime_s'] * 1000))}"),
            ("link", f"round trip {trip:.0f} ms" if trip is not None else "not measured yet"),
            ("held", f"{health['gate']['held']} on the device, {found['held']} known here"),
        ]
        rows += [("degraded", text) for text in health["degraded"]]
    if found["two_places"]:
        told = f"connects from two places ({found['stale_sessions']} stale sessions)"
        act = f"fleet device revoke {found['id']}, then enrol each machine with a token of its own"
        rows.append(("ALARM", f"{told}: {act}"))
    for name, value in rows:
        write(f"{name:<12} {clean(value)}")
    _certificates(found["certificates"], now)
    if health is not None and health["cameras"]:
        write_table(
            ("camera", "state", "#evaluated!", "#dropped!", "#age ms!"),
            (
                (c["name"], c["state"], c["evaluated"], c["dropped"], round(c["age_ms"]))
                for c in health["cameras"]
            ),
        )
    write_balance(found["balance"])


def _certificates(found: list[Any], now_ms: int) -> None:
    write_table(
        ("certificate~", "state!", "issued (UTC)!", "ends!"),
        (
            (
                c["serial"],
                c["state"],
                when(c["created_ms"]),
                None if c["not_after_ms"] is None else ends(c["not_after_ms"] - now_ms),
            )
            for c in found
        ),
        "no certificate yet",
    )


def ends(left_ms: int) -> str:
    """When something ends, from now."""
    return f"in {span(left_ms)}" if left_ms > 0 else f"{span(-left_ms)} ago"
