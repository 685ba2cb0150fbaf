"""Operators of a fleet on paper: the real HTTP application and the real engine over one database and one clock.

for desk in rollout_desk(tmp_path, database):
    desk.fleet.enrol("dock-1")                    # devices, as in `rollout_fleet`
    desk.anna.post("/v1/rollouts", json=plan)     # people with tokens of their own
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.audit import Audit
from fleet_server.http.limits import Limits
from fleet_server.operators import Role
from fleet_server.rollouts.plan_records import RolloutPlan, StagePlan
from tests.rigs.fleet_api import FleetApi, fleet_api
from tests.rigs.rollout_fleet import PaperClock, PaperFleet

PEOPLE = {"vera": Role.VIEWER, "anna": Role.OPERATOR, "ben": Role.APPROVER, "cleo": Role.ADMIN}


@dataclass
class RolloutDesk:
    """One server with people.

    Attributes:
        tokens: by the name of the person.
    """

    api: FleetApi
    fleet: PaperFleet
    tokens: dict[str, str]

    def person(self, name: str) -> httpx.Client:
        """A client of one of the people."""
        return self.api.client(token=self.tokens[name])

    @property
    def vera(self) -> httpx.Client:
        """A viewer."""
        return self.person("vera")

    @property
    def anna(self) -> httpx.Client:
        """An operator."""
        return self.person("anna")

    @property
    def ben(self) -> httpx.Client:
        """An approver."""
        return self.person("ben")

    def body(self, counter: int, *stages: StagePlan, **said: Any) -> dict[str, Any]:
        """A plan as a request's body."""
        return body_of(self.fleet.plan(counter, *stages, **said))

    def started(self, counter: int, *stages: StagePlan, **said: Any) -> str:
        """A rollout that anna made and started, and ben agreed to; its id."""
        made = self.anna.post("/v1/rollouts", json=self.body(counter, *stages, **said))
        assert made.status_code == 201, made.text
        rollout = str(made.json()["id"])
        for person, act in ((self.ben, "approve"), (self.anna, "start")):
            answer = person.post(f"/v1/rollouts/{rollout}/{act}", json={})
            assert answer.status_code == 200, answer.text
        return rollout

    def shown(self, rollout: str) -> Any:
        """A rollout as the API shows it."""
        answer = self.vera.get(f"/v1/rollouts/{rollout}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def until(self, rollout: str, state: str, *, rounds: int = 60, seconds: float = 5.0) -> Any:
        """Let time pass until a rollout is in a state."""
        for _ in range(rounds):
            if (found := self.shown(rollout))["state"] == state:
                return found
            self.fleet.round(seconds)
        raise AssertionError(f"{rollout} is {found['state']} and not {state}: {found['reason']}")


def body_of(plan: RolloutPlan) -> dict[str, Any]:
    """A plan as a request's body."""
    return plan.model_dump(mode="json", exclude_none=True)


def rollout_desk(directory: Path, database: str, limits: Limits | None = None) -> Iterator[RolloutDesk]:
    """One server for a test; its clock begins now and moves when it is told."""
    clock = PaperClock(SystemClock().wall().unix_ns // NS_PER_MS)
    for api in fleet_api(directory, database, limits, clock=cast("Any", clock)):
        fleet = PaperFleet(api.application.store, now_ms=clock.now_ms)
        fleet.clock, fleet.audit = clock, Audit(clock)
        fleet.service = fleet.new_service()
        tokens = {}
        with api.write() as session:
            for name, role in PEOPLE.items():
                tokens[name] = api.application.services.tokens.create(session, name, role)[1]
        yield RolloutDesk(api, fleet, tokens)
