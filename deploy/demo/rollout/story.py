"""The demo from its first line to its verdict: a good version to everybody, a damaged one to nobody for long."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from deploy.demo.assets import MODEL
from deploy.demo.rollout.behaviour import behaviour
from deploy.demo.rollout.models import Versions, frames_of, make_versions
from deploy.demo.rollout.people import RINGS, Release, Terms, salt_for
from deploy.demo.rollout.screen import Picture, Screen, change
from deploy.demo.rollout.stage import CLIP, REAL, SIMULATED, SLOT, Stage
from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.durable import write_file
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.protocol.release import ProbationTerms, ShadowTerms
from fleet_server.cli.client import FleetClient

RESULT, LOG = "result.json", "rollout.log"
WELL, BAD = "a good version", "a damaged version"
"""Names of the rollouts."""

_LOOK_S = 0.5
_ARRIVE_S, _ROLL_S = 240.0, 600.0
_EVERY = 10
_PROBATION = ProbationTerms(
    seconds=4, max_seconds=300, min_frames=10, max_latency_ratio=5.0, max_event_rate_ratio=50.0
)
GOOD = Terms(
    ShadowTerms(seconds=3, max_seconds=300, min_frames=10, max_latency_ratio=5.0),
    _PROBATION,
    "stricter about faces",
)
HASTY = Terms(ShadowTerms(seconds=0), _PROBATION, "signed in a hurry: without a run beside the other")
_OVER = ("completed", "rolled-back", "cancelled", "halted", "paused")


class TooLate(EdgeRuntimeError):
    """Something did not happen in time; the text says what stood still."""


@dataclass(slots=True)
class Outcome:
    """What came of the demo.

    Attributes:
        checks: what has to hold, by a sentence.
        timeline: what happened when, in seconds since the beginning.
    """

    checks: dict[str, bool] = field(default_factory=dict)
    timeline: list[tuple[float, str]] = field(default_factory=list)
    rollouts: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether everything that has to hold does."""
        return bool(self.checks) and all(self.checks.values())


def tell(console: Console, out: Path, preset: str, seed: int) -> int:
    """Run the demo.

    Args:
        console: for everything that a person sees.
        out: folder of the results.
        preset: of the people's keys.
        seed: of the simulated devices.

    Returns:
        0 where the good version runs everywhere and the damaged one nowhere, else 1.

    Raises:
        EdgeRuntimeError: a part did not start, or something stood still.
    """
    outcome, clock = Outcome(), SystemClock()
    began_ns = clock.monotonic_ns()

    def now_s() -> float:
        return (clock.monotonic_ns() - began_ns) / NS_PER_S

    def say(what: str, text: str) -> None:
        outcome.timeline.append((round(now_s(), 1), f"{what}: {text}"))
        console.print(Text.assemble((f"{what:<9}", "dim"), text), soft_wrap=True)
        console.file.flush()

    with Stage(out / "road", say, preset, seed) as stage:
        with console.status("two versions of the model: one stricter, one damaged where it is dark"):
            versions = make_versions(MODEL, CLIP, stage.folder / "versions")
        say("versions", "a stricter one, and one that has no numbers in dark pictures; both measure the same")
        with console.status("keys of people"):
            stage.hold_ceremony()
        releases = _publish_all(console, stage, versions, say)
        with console.status("an authority, a server, a broker, 51 devices"):
            stage.start(versions.first.digest)
        story = _Story(console, stage, outcome, now_s=now_s, say=say)
        try:
            story.run(*releases)
        except TooLate as error:
            outcome.checks[str(error)] = False
        finally:
            _write(out, outcome)
        _last_words(console, outcome, out)
    return 0 if outcome.holds else 1


def _publish_all(
    console: Console, stage: Stage, versions: Versions, say: Callable[[str, str], None]
) -> tuple[Release, Release]:
    """Both versions are released before any device runs: the server tries each on its golden vectors."""
    pictures = list(frames_of(CLIP))[::_EVERY]
    people, made = stage.people, []
    for package, terms in ((versions.good, GOOD), (versions.damaged, HASTY)):
        found = behaviour(versions.first, package, pictures)
        with console.status("packed, signed, approved, tried by the server, published"):
            release = people.release(package, terms, salt_for(REAL, SIMULATED, terms.notes))
        stage.behaviours[release.sha256] = found
        made.append(release)
        say(
            "release",
            f"{release.name} {release.counter}: {people.builder} built it, {people.approver} approved it; on the "
            f"camera's frames it agrees about {found.agreement:.0%} of objects",
        )
    return made[0], made[1]


class _Story:
    """Everything stands; two rollouts follow."""

    def __init__(
        self,
        console: Console,
        stage: Stage,
        outcome: Outcome,
        *,
        now_s: Callable[[], float],
        say: Callable[[str, str], None],
    ) -> None:
        self._console, self._stage, self._outcome = console, stage, outcome
        self._now_s, self._say = now_s, say
        self._pause = threading.Event()
        self._author: FleetClient = stage.client("ada", "operator")
        self._approver: FleetClient = stage.client("ben", "approver")

    def run(self, good: Release, bad: Release) -> None:
        """Wait for the devices, then roll out one version after the other."""
        self._wait_for_devices()
        self._check_good(self._roll_out(WELL, good), good)
        self._check_bad(self._roll_out(BAD, bad), good)

    # -- parts -------------------------------------------------------------------------------------------------

    def _wait_for_devices(self) -> None:
        want = len(self._stage.everybody)
        with self._console.status(f"{want} devices come and say what they run"):
            until = self._now_s() + _ARRIVE_S
            missing = set(self._stage.everybody)
            while missing := {device for device in missing if not self._slots(device)}:
                self._require_device()
                if self._now_s() > until:
                    raise TooLate(f"{len(missing)} of {want} devices did not come within {_ARRIVE_S:g} s")
                self._pause.wait(_LOOK_S)
        self._say("fleet", f"{want} devices are there, each with its own key and what people signed")

    def _slots(self, device: str) -> dict[str, str | None]:
        """What a device last said that its slots run; empty before it said anything."""
        found = self._author.get(f"/v1/devices/{device}/rollouts")
        return {slot["slot"]: slot.get("sha256") for slot in found["slots"]}

    def _roll_out(self, title: str, release: Release) -> Mapping[str, Any]:
        made = self._author.post("/v1/rollouts", _plan(title, release))
        path = f"/v1/rollouts/{made['id']}"
        self._approver.post(f"{path}/approve", {"note": "the demo"})
        self._author.post(f"{path}/start")
        picture = Picture(REAL, title)
        until = self._now_s() + _ROLL_S
        with Screen(self._console, picture) as screen:
            while True:
                self._look(path, picture)
                screen.update()
                view = picture.view
                assert view is not None
                if view["state"] in _OVER:
                    break
                if self._now_s() > until:
                    raise TooLate(f"{title} was not decided within {_ROLL_S:g} s: {change(picture)}")
                self._require_device()
                self._pause.wait(_LOOK_S)
        self._outcome.rollouts[title] = {"view": view, "devices": picture.members}
        self._say("rollout", change(picture))
        return view

    def _look(self, path: str, picture: Picture) -> None:
        picture.view = self._author.get(path)
        members = self._author.pages(f"{path}/devices", "devices", "after", limit=1000)
        picture.members = {member["device"]: _state_of(member) for member in members}
        picture.seconds = self._now_s()
        line = change(picture)
        if not self._outcome.timeline or self._outcome.timeline[-1][1] != line:
            self._outcome.timeline.append((round(picture.seconds, 1), line))

    def _require_device(self) -> None:
        if self._stage.device.poll() is not None:
            raise TooLate(f"the real device ended: {self._stage.said().strip().splitlines()[-1:]}")

    # -- checks ------------------------------------------------------------------------------------------------

    def _check_good(self, view: Mapping[str, Any], good: Release) -> None:
        checks = self._outcome.checks
        checks["the good version passed all four rings"] = view["state"] == "completed" and [
            stage["state"] for stage in view["stages_view"]
        ] == ["passed"] * len(RINGS)
        checks["every device took the good version"] = view["counts"] == {
            "healthy": len(self._stage.everybody)
        }
        checks["every device runs the good version"] = self._all_run(good)

    def _check_bad(self, view: Mapping[str, Any], good: Release) -> None:
        checks, stages = self._outcome.checks, [stage["state"] for stage in view["stages_view"]]
        checks["the damaged version failed in its first ring, and no other was opened"] = stages == [
            "failed",
            *["pending"] * (len(RINGS) - 1),
        ]
        checks["the damaged version was rolled back"] = view["state"] == "rolled-back"
        checks["no device ever counted as well with the damaged version"] = "healthy" not in view["counts"]
        checks["the devices of that ring took it back themselves, in probation"] = set(view["codes"]) == {
            "probation-nonfinite"
        }
        reverted = self._outcome.rollouts[BAD]["devices"].get(REAL) == "reverted"
        checks["the real device was one of them"] = reverted
        until = self._now_s() + 30
        while not (runs := self._all_run(good)) and self._now_s() < until:
            self._pause.wait(_LOOK_S)
        checks["every device runs the good version again"] = runs

    def _all_run(self, release: Release) -> bool:
        simulated = self._stage.fleet.running(SLOT)
        real = self._slots(REAL).get(SLOT)
        return simulated == {release.sha256: len(SIMULATED)} and real == release.sha256


def _plan(title: str, release: Release) -> dict[str, Any]:
    # two verdicts at least: the real device's own is one of the first ring's
    rules = {"min_devices": 2, "min_share": 1.0, "max_bad_share": 0.0, "soak_s": 1, "max_wait_s": 600}
    return {
        "name": title,
        "slot": SLOT,
        "release": release.name,
        "counter": release.counter,
        "stages": [{"basis_points": share, "rules": rules} for share in RINGS],
        "on_fail": "rollback",
    }


def _state_of(member: Mapping[str, Any]) -> str:
    return str(member["state"])


def _write(out: Path, outcome: Outcome) -> None:
    result = {
        "holds": outcome.holds,
        "checks": outcome.checks,
        "timeline": outcome.timeline,
        "rollouts": outcome.rollouts,
    }
    write_file(out / RESULT, json.dumps(result, indent=1).encode() + b"\n")
    lines = "".join(f"{seconds:7.1f} s  {text}\n" for seconds, text in outcome.timeline)
    write_file(out / LOG, lines.encode())


def _last_words(console: Console, outcome: Outcome, out: Path) -> None:
    console.print()
    for sentence, holds in outcome.checks.items():
        sign = Text("✓ ", "green") if holds else Text("✗ ", "bold red")
        console.print(sign.append(sentence, "default"), soft_wrap=True)
    console.print(Text.assemble(("files    ", "dim"), f"{out}: {RESULT}, {LOG}"), soft_wrap=True)
