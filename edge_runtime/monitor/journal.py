"""What the guard did, in the log: its loop writes none, and whoever reads a service's journal looks there first."""

from collections.abc import Iterable

from edge_runtime.guard.memory import State
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.telemetry import get_logger

_ALARMING = (State.SAFE.value, State.LOCKOUT.value)
_WORSE = (State.STOPPED.value, State.DEGRADED.value)
_QUIET_PHASES = ("starting", "working", "waiting", "stopping")


def log_records(records: Iterable[FlightRecord]) -> None:
    """Log changes of state, processes that ended, and what people asked the guard for."""
    for record in records:
        if record.kind == "change":
            _log_change(record)
        elif record.kind == "worker":
            _log_worker(record)
        elif record.kind == "act":
            _log_act(record)


def _log_change(record: FlightRecord) -> None:
    log, fields = get_logger(), record.fields
    state = str(fields.get("state"))
    say = log.error if state in _ALARMING else log.warning if state in _WORSE else log.info
    told = {"before": fields.get("before"), "causes": ",".join(map(str, fields.get("causes") or ()))}
    if fields.get("latch"):
        told |= {"latch": fields["latch"], "next": "edge-runtime status"}
    say("guard " + state, **{name: value for name, value in told.items() if value})


def _log_worker(record: FlightRecord) -> None:
    fields = record.fields
    if fields.get("phase") in _QUIET_PHASES or (fields.get("phase") == "ended" and fields.get("exit") == 0):
        return
    get_logger().warning(
        "process " + str(fields.get("phase")), process=fields.get("name"), exit=fields.get("exit")
    )


def _log_act(record: FlightRecord) -> None:
    fields = record.fields
    if "refused" in fields:
        get_logger().warning("guard refused", why=fields["refused"])
        return
    named = {name: fields[name] for name in ("by", "note", "latch") if fields.get(name)}
    get_logger().info("guard asked to " + str(fields.get("ask")), **named)
