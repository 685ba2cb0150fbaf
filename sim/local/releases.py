"""Releases of a fleet of one: people with keys sign them, the server publishes them, a rollout assigns each.

The versions are those of the demo: one that is a little stricter, and one whose boxes hold no numbers in pictures
like the camera's, although it looks as good on paper. The camera plays the demo's clip, because a model that finds
nothing has nothing to get wrong.
"""

import contextlib
import threading
from pathlib import Path

from deploy.demo.assets import CLIPS
from deploy.demo.rollout.models import Versions, make_versions
from deploy.demo.rollout.people import People, Release, Terms
from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.durable import write_file
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.protocol.release import BUCKETS, ProbationTerms, ShadowTerms
from fleet_server.cli.client import FleetClient
from fleet_server.cli.target import choose
from fleet_server.operators.roles import Role
from fleet_server.serve.composition import Application, open_application
from sim.process import RoadError
from sim.road import Server

CLIP = CLIPS / "carphone.mp4"
OVER = ("completed", "rolled-back", "cancelled", "halted", "paused")
_LOOK_S = 0.5
_SALT = "5a" * 8
_PROBATION = ProbationTerms(
    seconds=60, max_seconds=600, min_frames=10, max_latency_ratio=10.0, max_event_rate_ratio=50.0
)
_CAREFUL = Terms(
    ShadowTerms(seconds=3, max_seconds=600, min_frames=10, max_latency_ratio=10.0),
    _PROBATION,
    "stricter about faces",
)
_HASTY = Terms(ShadowTerms(seconds=0), _PROBATION, "signed in a hurry: without a run beside the other")
_RULES = {"min_devices": 1, "min_share": 1.0, "max_bad_share": 0.0, "soak_s": 1, "max_wait_s": 600}


class Releases:
    """Two published releases, and their rollouts.

    Args:
        server: that runs.
        model: package that the device was set up with.
        folder: for keys and versions; made.
        slot: name of the device's model.
        clock: of the machine.

    Attributes:
        clip: for the camera.

    Raises:
        RoadError: one could not be published.
    """

    clip = CLIP

    def __init__(self, server: Server, model: Path, folder: Path, slot: str, clock: Clock) -> None:
        if not CLIP.exists():
            raise RoadError(f"{CLIP} is not there; `make assets` fetches it")
        folder.mkdir()
        self._slot, self._clock, self._stack = slot, clock, contextlib.ExitStack()
        self._rollouts: list[str] = []
        application = self._stack.enter_context(contextlib.closing(open_application(server.data, {})))
        try:
            versions = make_versions(model, CLIP, folder / "versions")
            self._good, self._bad = _published(application, versions, folder / "people")
        except EdgeRuntimeError as error:
            self.close()
            raise RoadError(f"the releases were not published: {error}") from None
        self._author = self._client(server, application, folder / "ada.token", Role.OPERATOR)
        self._approver = self._client(server, application, folder / "ben.token", Role.APPROVER)

    def close(self) -> None:
        """No more."""
        self._stack.close()

    def assign(self, *, bad: bool) -> None:
        """Roll a release out to everybody, which is one device.

        Raises:
            RoadError: the server refused.
        """
        release = self._bad if bad else self._good
        plan = {
            "name": release.name,
            "slot": self._slot,
            "release": release.name,
            "counter": release.counter,
            "stages": [{"basis_points": BUCKETS, "rules": _RULES}],
            "on_fail": "rollback",
        }
        try:
            path = f"/v1/rollouts/{self._author.post('/v1/rollouts', plan)['id']}"
            self._approver.post(f"{path}/approve", {"note": "a scenario"})
            self._author.post(f"{path}/start")
        except EdgeRuntimeError as error:
            raise RoadError(f"the rollout did not start: {error}") from None
        self._rollouts.append(path)

    def ends(self, within_s: float) -> tuple[int, int]:
        """How many releases stayed, and how many were refused or taken back, as the device reported it.

        Args:
            within_s: so long rollouts that still go on are waited for.
        """
        kept = back = 0
        until_ns, pause = self._clock.monotonic_ns() + round(within_s * NS_PER_S), threading.Event()
        for path in self._rollouts:
            view = self._author.get(path)
            while view["state"] not in OVER and self._clock.monotonic_ns() < until_ns:
                pause.wait(_LOOK_S)
                view = self._author.get(path)
            counts = view["counts"]
            kept += counts.get("healthy", 0)
            back += counts.get("reverted", 0) + counts.get("refused", 0)
        return kept, back

    def _client(self, server: Server, application: Application, made: Path, role: Role) -> FleetClient:
        """The API as one person, with a token of their own."""
        with application.services.store.write() as session:
            _, text = application.services.tokens.create(session, made.stem, role)
        write_file(made, text.encode(), 0o600)
        client = FleetClient.to(choose(server.url, made, server.data / "authority" / "ca.pem", None, {}))
        self._stack.callback(client.close)
        return client


def _published(application: Application, versions: Versions, folder: Path) -> tuple[Release, Release]:
    """The people's ceremony, and both versions signed, approved and tried by the server."""
    people = People(folder, application.services.releases, "single")
    people.begin()
    good = people.release(versions.good, _CAREFUL, _SALT)
    return good, people.release(versions.damaged, _HASTY, _SALT)
