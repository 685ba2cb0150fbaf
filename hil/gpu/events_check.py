"""The demo on TensorRT against the demo on the CPU: the same events at the same moments."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.demo.compose import Wishes, compose
from edge_runtime.cli.main import run
from edge_runtime.engines.machine import import_tensorrt
from edge_runtime.errors import MissingDependency
from edge_runtime.state import ENVIRONMENT
from hil.gpu.bench import Bench, Failed, NotPossible

_APART_S: Final = 0.07
"""Two frames of the demo: TF32 moves a score by a hundredth, which may carry a face over a threshold a frame
later."""

Event = dict[str, Any]


def check_events(bench: Bench) -> str:
    """The same frames, the same rules, another backend."""
    try:
        import_tensorrt()
    except MissingDependency as error:
        raise NotPossible(str(error)) from error
    with bench.device():
        pass
    ours, summary = _run(bench, "tensorrt")
    (model,) = summary["models"].values()
    if model["effective"] != "tensorrt":
        raise Failed(f"the demo did not run on TensorRT: {model['degraded']}")
    bench.on_gpu = True
    theirs, other = _run(bench, "cpu")
    bench.values.update(
        {
            "frames": bench.frames,
            "events": len(theirs),
            "tensorrt_fps": summary["fps"],
            "cpu_fps": other["fps"],
        }
    )
    if not theirs:
        raise Failed("the demo saw no event on the CPU, so nothing was compared")
    difference = first_difference(ours, theirs)
    if difference is not None:
        raise Failed(difference)
    return f"{len(theirs)} events, each the same"


def _run(bench: Bench, provider: str) -> tuple[list[Event], dict[str, Any]]:
    folder = (bench.out / f"events-{provider}").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    path = compose(Wishes(), folder, Path.cwd(), "every_frame")
    configuration = yaml.safe_load(path.read_text(encoding="utf-8"))
    missing = [
        clip["path"]
        for camera in configuration["cameras"].values()
        for clip in camera["source"]["clips"]
        if not Path(clip["path"]).is_file()
    ]
    if missing:
        raise NotPossible(f"the demo's clip {Path(missing[0]).name} is missing: run `make assets` first")
    for settings in configuration["models"].values():
        settings["providers"] = [provider]
        settings["batch"] = 1  # the engine of the other checks
    configuration["engines"] = {"build_budget": bench.build_s}
    os.environ[ENVIRONMENT] = str(bench.state.path)  # where the engine is that an earlier check built
    configuration["evidence"]["directory"] = str(folder / "crops")
    path.write_text(yaml.safe_dump(configuration, sort_keys=False), encoding="utf-8")
    events, summary = folder / "events.ndjson", folder / "summary.json"
    events.unlink(missing_ok=True)
    arguments = ["run", str(path), "--events", str(events), "--summary", str(summary)]
    with (folder / "run.log").open("w", encoding="utf-8") as log, contextlib.redirect_stdout(log):
        code = run([*arguments, "--max-frames", str(bench.frames)])
    if code:
        raise Failed(f"the demo on {provider} ended with code {code}: see {folder / 'run.log'}")
    lines = events.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], json.loads(summary.read_text(encoding="utf-8"))


def first_difference(ours: list[Event], theirs: list[Event]) -> str | None:
    """What first tells two runs over the same frames apart, or None.

    Identifiers, wall time and latencies are those of a run; what happened and when on the recording is not.
    """
    mine, others = (sorted(events, key=_order) for events in (ours, theirs))
    for one, other in zip(mine, others, strict=False):
        if _what(one) != _what(other):
            return f"TensorRT saw {_told(one)} where the CPU saw {_told(other)}"
        for moment in ("started", "at"):
            apart = abs(one[moment]["media_s"] - other[moment]["media_s"])
            if apart > _APART_S:
                return f"{_told(one)} came {apart:.3f} s apart: at most {_APART_S} s is allowed"
    if len(mine) != len(others):
        more, by = (mine, "TensorRT") if len(mine) > len(others) else (others, "the CPU")
        return f"only {by} saw {_told(more[min(len(mine), len(others))])}"
    return None


def _order(event: Event) -> tuple[str, str, str, float]:
    return event["camera"], event["rule"], str(event.get("state")), event["at"]["media_s"]


def _what(event: Event) -> tuple[Any, ...]:
    return tuple(
        event.get(name) for name in ("camera", "rule", "kind", "state", "label", "direction", "severity")
    )


def _told(event: Event) -> str:
    words = [event["rule"], str(event.get("state")), event.get("direction") or ""]
    return f"{' '.join(word for word in words if word)} at {event['at']['media_s']:.2f} s"
