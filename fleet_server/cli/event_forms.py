"""The forms in which one event is shown and many are exported."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from fleet_server.cli.output import clean, when, write
from fleet_server.in_words import span

CSV_COLUMNS = (
    "id",
    "key",
    "device",
    "received",
    "at_ms",
    "synced",
    "severity",
    "kind",
    "rule",
    "camera",
    "state",
    "revision",
    "data_class",
    "label",
    "count",
    "duration_s",
    "evidence_sha256",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def show_event(found: Any) -> None:
    """One event on stdout, a line for each thing to know."""
    event, decision, evidence = found["event"] or {}, found["decision"] or {}, found["evidence"]
    rows: list[tuple[str, object]] = [
        ("event", f"{event.get('id', '-')} revision {found['revision']}, {found['state']}"),
        ("key", f"{found['key']}  (number {found['id']})"),
        ("device", found["device"]),
        ("camera", found["camera"]),
        ("rule", f"{found['rule']} ({found['kind']})"),
        ("severity", found["severity"]),
        ("happened", _happened(found)),
        ("committed", f"{when(found['received_ms'])} UTC"),
        ("class", found["data_class"]),
    ]
    optional = ("label", "confidence", "count", "direction", "duration_s", "reason")
    rows += [(name, event[name]) for name in optional if event.get(name) is not None]
    if decision:
        rows += [
            ("decision", f"{decision['decision']}: {', '.join(decision['reasons'])}"),
            ("permit", f"{decision.get('permit') or '-'} to {', '.join(decision['recipients']) or '-'}"),
        ]
        if decision.get("by"):
            rows.append(("released by", f"{decision['by']}: {decision.get('note') or ''}"))
    else:
        rows.append(("content", "written by a newer version; this one cannot read it"))
    if evidence is not None:
        state = f"{evidence['state']}, {evidence['received']} of {evidence['bytes']} bytes"
        rows.append(("evidence", f"{evidence['mode']}, {state}"))
    for name, value in rows:
        write(f"{name:<12} {clean(value)}")


def _happened(found: Any) -> str:
    label = f"{when(found['at_ms'])} UTC by the device's clock"
    late = found["received_ms"] - found["at_ms"]
    if not found["synced"]:
        return f"{label}, which was not synchronised"
    return f"{label}, {span(late)} before it was committed" if late >= 1000 else label


def json_lines(found: Iterator[Any]) -> Iterator[str]:
    """One JSON object a line."""
    for event in found:
        yield json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n"


def csv_lines(found: Iterator[Any]) -> Iterator[str]:
    """A heading and one line for each event (RFC 4180), with what fits into columns."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(CSV_COLUMNS)
    yield buffer.getvalue()
    for event in found:
        buffer.seek(0)
        buffer.truncate()
        content = event["event"] or {}
        row = {**content, **event, "received": when(event["received_ms"])}
        writer.writerow([_cell(row.get(name)) for name in CSV_COLUMNS])
        yield buffer.getvalue()


def _cell(value: object) -> object:
    """A text that a spreadsheet would take for a formula is quoted, as its own makers advise."""
    if value is None or not isinstance(value, str):
        return "" if value is None else value
    return f"'{value}" if value.startswith(_FORMULA) else value
