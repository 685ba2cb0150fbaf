"""Files that a run leaves: no two the same, none the configuration itself, and the summary whole or not at all."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_runtime.durable import write_file
from edge_runtime.errors import ConfigError
from edge_runtime.protocol import DecisionKind

if TYPE_CHECKING:
    from edge_runtime.node.delivery import DeliverySnapshot
    from edge_runtime.node.snapshot import RunSnapshot


def refuse_collisions(config: Path, outputs: Mapping[str, str | Path | None]) -> None:
    """Stop before one output overwrites another, or the configuration.

    Args:
        config: the configuration file.
        outputs: path by option name; None and `-` are no files.

    Raises:
        ConfigError: two are the same file, or the summary's folder cannot be written.
    """
    taken = {config.resolve(): "the configuration file"}
    for option, path in outputs.items():
        if path is None or str(path) == "-":
            continue
        full = Path(path).resolve()
        if full in taken and not _is_device(full):
            raise ConfigError(f"--{option} {path} is {taken[full]} already: choose another file")
        taken[full] = f"what --{option} writes"
    summary = outputs.get("summary")
    if summary is not None:
        _require_folder(Path(summary))


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _require_folder(path: Path) -> None:
    if path.is_dir():
        raise ConfigError(f"--summary {path} is a folder: name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--summary {path}: its folder cannot be made: {error.strerror}") from error
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"--summary {path}: its folder may not be written")


def summary_json(
    result: "RunSnapshot", *, events_lost: int, delivery: "DeliverySnapshot | None" = None
) -> dict[str, Any]:
    """The run as plain data.

    Args:
        result: of the run.
        events_lost: revisions that no sink could write.
        delivery: how delivery stood at the end, where the configuration has one.
    """
    found = {
        "seconds": round(result.seconds, 3),
        "frames": result.frames,
        "fps": round(result.fps, 2),
        "interrupted": result.interrupted,
        "events_lost": events_lost,
        "cameras": {name: asdict(camera) for name, camera in result.cameras.items()},
        "models": {name: asdict(model) for name, model in result.models.items()},
        "stages_ms": {
            name: {
                "count": s.count,
                "total": round(s.total_ms, 3),
                "p50": round(s.p50_ms, 4),
                "p95": round(s.p95_ms, 4),
                "p99": round(s.p99_ms, 4),
            }
            for name, s in result.stages.items()
        },
    }
    if result.heat is not None:
        found["heat"] = asdict(result.heat)
    if delivery is not None:
        found["delivery"] = _delivery_json(delivery)
    return found


def _delivery_json(delivery: "DeliverySnapshot") -> dict[str, Any]:
    outbox = delivery.outbox
    return {
        "enrolled": delivery.enrolled,
        "server": {
            "state": delivery.way_out.state.value,
            "why": delivery.way_out.why,
            "last_answered": delivery.way_out.connected,
        },
        "gate": {kind.value: delivery.gate.decided.get(kind.value, 0) for kind in DecisionKind},
        "outbox": None
        if outbox is None
        else {
            **outbox.ledger.model_dump(exclude={"v"}),
            "not_accepted": sum(outbox.not_accepted.values()),
            "held": outbox.held,
            "state": outbox.state.value,
        },
        "restarts": {process.name: process.restarts for process in delivery.processes},
        "notices": list(delivery.notices),
    }


def write_summary(path: Path, data: Mapping[str, Any]) -> list[str]:
    """Write the summary, whole or not at all; what went wrong, in a sentence."""
    text = (json.dumps(data, indent=2) + "\n").encode()
    try:
        if _is_device(path):
            path.write_bytes(text)
        else:
            write_file(path, text)
    except OSError as error:
        return [f"{path}: the summary cannot be written: {error.strerror}"]
    return []
