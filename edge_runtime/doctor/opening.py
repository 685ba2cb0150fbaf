"""`python -m edge_runtime.doctor.opening CONFIG MODEL [STATE]`: opens a model as `run` does, and says what runs it.

The answer is one line of JSON, the last on stdout. It is a process of its own: see `models`.
"""

import json
import sys
from pathlib import Path

from edge_runtime.config import load_config
from edge_runtime.engines.progress import BuildProgress
from edge_runtime.errors import BackendError, EdgeRuntimeError
from edge_runtime.lifeline import die_with_parent
from edge_runtime.node.engines import engine_source
from edge_runtime.node.models import execution_of, open_in_place
from edge_runtime.perception.backends import BackendFacts
from edge_runtime.telemetry import configure_logging, redact


class EngineAbsent(BackendError):
    """There is no engine for this device yet, and looking at a device must not begin to build one."""


def open_configured(config: Path, name: str, state: Path | None) -> BackendFacts:
    """Open, warm up and close a configured model; no engine is built.

    Raises:
        EdgeRuntimeError: it does not open as configured.
    """
    loaded = load_config(config)

    def refuse(_progress: BuildProgress) -> None:
        # A build takes minutes, and one that is broken off would count as failed.
        raise EngineAbsent(
            f"no engine is built for it on this device yet: edge-runtime engine build {config}"
        )

    source = engine_source(loaded, state, refuse)
    # A look holds nothing, and its time limit may end it: neither is to cost a sound engine.
    execution = execution_of(loaded.config, name)
    opened = open_in_place(loaded, name, name, execution, source, holds=False)
    try:
        return opened.model.backend.facts
    finally:
        opened.model.close()


def answer(config: Path, name: str, state: Path | None = None) -> dict[str, str]:
    """What became of it, as the fields of `ModelFacts` that are text."""
    try:
        facts = open_configured(config, name, state)
    except EdgeRuntimeError as error:
        return {"error": redact(str(error))}
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the answer
        return {"error": redact(f"{type(error).__name__}: {error}")}
    return {
        "effective": facts.effective,
        "backend": facts.backend,
        "version": facts.version,
        "degraded": redact(facts.degraded or ""),
    }


def main() -> None:
    """The process's arguments are the configuration file, the model's name in it, and the state directory."""
    die_with_parent()
    configure_logging("critical")
    config, name, *state = sys.argv[1:]
    told = answer(Path(config), name, Path(state[0]) if state else None)
    print(json.dumps({"model": told}), flush=True)


if __name__ == "__main__":
    main()
