"""The alerts of deploy/prometheus: they can be read, name what a server really says, and ring when they should."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from edge_runtime.clock import NS_PER_S
from fleet_server.cli.commands import COMMANDS
from fleet_server.rollouts.service import RolloutService
from tests.conftest import REPOSITORY
from tests.rigs.promql import Scrape, Unreadable, selectors
from tests.rigs.release_parties import SignedFleet
from tests.rigs.rollout_desk import RolloutDesk, rollout_desk
from tests.rigs.rollout_fleet import names, stage

RULES = REPOSITORY / "deploy" / "prometheus" / "rollouts.yml"
DAY_S = 86_400
Span = Annotated[str, Field(pattern=r"^\d+[smhd]$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Annotations(_Strict):
    """What is sent along."""

    summary: Annotated[str, Field(max_length=120, pattern=r"^[A-Z{]")]
    description: Annotated[str, Field(min_length=20, pattern=r"\.$")]


class Alert(_Strict):
    """One rule of Prometheus."""

    alert: Annotated[str, Field(pattern=r"^Fleet[A-Za-z]+$")]
    expr: str
    labels: dict[str, Annotated[str, Field(pattern=r"^(info|warning|critical)$")]]
    annotations: Annotations
    duration: Annotated[Span | None, Field(alias="for")] = None


class Group(_Strict):
    """Rules that are evaluated together."""

    name: str
    interval: Span
    rules: Annotated[list[Alert], Field(min_length=1)]


class RuleFile(_Strict):
    """A file of `rule_files`."""

    groups: list[Group]


def _alerts() -> dict[str, Alert]:
    file = RuleFile.model_validate(yaml.safe_load(RULES.read_text()))
    found = {rule.alert: rule for group in file.groups for rule in group.rules}
    assert len(found) == sum(len(group.rules) for group in file.groups), "a name is used once"
    return found


ALERTS = _alerts()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[RolloutDesk]:
    """A fleet that is well: its metadata is signed and fresh, and nothing waits."""
    for made in rollout_desk(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}"):
        store, releases = made.api.application.store, made.api.application.services.releases
        SignedFleet.begin(tmp_path / "keys", store, clock=made.fleet.clock, desk=releases)
        made.fleet.publish(1)
        made.fleet.enrol(*names(4))
        made.api.application.services.rollouts.step()  # as `fleet serve` does each second
        yield made


def scraped(desk: RolloutDesk) -> Scrape:
    return Scrape(desk.vera.get("/metrics").text, desk.fleet.clock.wall().unix_ns / NS_PER_S)


def ringing(desk: RolloutDesk) -> dict[str, set[str]]:
    """Alerts that are active, and what each is about."""
    found = scraped(desk)
    active = {name: found.evaluate(rule.expr) for name, rule in ALERTS.items()}
    return {
        name: {dict(labels).get("rollout", dict(labels).get("role", "")) for labels in series}
        for name, series in active.items()
        if series
    }


def keep_fresh(desk: RolloutDesk) -> None:
    """What `fleet serve` does by itself."""
    desk.api.application.services.releases.freshness.keep()


def ringing_but_for_time(desk: RolloutDesk) -> dict[str, set[str]]:
    """The same without the alert on a server that stands still: in these tests its time leaps."""
    return {name: about for name, about in ringing(desk).items() if name != "FleetRolloutsStandStill"}


def test_each_alert_names_what_a_server_says(desk: RolloutDesk) -> None:
    desk.started(1)
    RolloutService(desk.fleet.store, desk.fleet.clock, desk.fleet.audit).step()
    scrapes = [scraped(desk)]  # decided, and signed by nobody
    desk.fleet.service.step()
    scrapes.append(scraped(desk))  # signed, and handed to no broker
    for name, rule in ALERTS.items():
        for wanted in selectors(rule.expr):
            assert wanted.name in scrapes[0].names, (name, wanted.name)
            series = [labels for scrape in scrapes for labels, _ in scrape.samples.get(wanted.name, [])]
            assert series, (name, wanted.name, "it never says anything")
            assert set().union(*series) >= {label for label, _, _ in wanted.matchers}, (name, wanted)


@pytest.mark.parametrize("name", ALERTS)
def test_what_is_said_with_an_alert_can_be_filled_in_and_typed(name: str) -> None:
    rule = ALERTS[name]
    kept = re.findall(r"by \(([^)]*)\)", rule.expr)
    labels = {label.strip() for part in kept for label in part.split(",")} or {"role", "rollout"}
    text = f"{rule.annotations.summary} {rule.annotations.description}"
    for used in re.findall(r"\{\{(.*?)\}\}", text):
        found = re.fullmatch(
            r" \$(labels\.(?P<label>[a-z]+)|value)( \| humanize(Duration|Percentage)?)? ", used
        )
        assert found is not None, used
        assert found["label"] is None or found["label"] in labels, (used, labels)
    rows = {row.name: row for row in COMMANDS}
    for command in re.findall(r"`fleet ([^`]+)`", text):
        words = command.split()
        assert words[0] in rows, command
        assert set(rows[words[0]].exits) == {""} or words[1] in rows[words[0]].exits, command


def test_no_alert_rings_on_a_fleet_that_is_well(desk: RolloutDesk) -> None:
    assert ringing(desk) == {}
    desk.started(1, stage(rules={"min_devices": 4, "soak_s": 100}))
    desk.fleet.rounds(3)
    assert ringing(desk) == {}


def test_alerts_on_rollouts_that_wait_for_people_ring(desk: RolloutDesk) -> None:
    desk.fleet.enrol("away-1", online=False, labels={"site": "south"})
    rollout = desk.anna.post("/v1/rollouts", json=desk.body(1, labels={"site": "south"})).json()["id"]
    desk.fleet.pass_s(2 * DAY_S)
    keep_fresh(desk)
    assert ringing_but_for_time(desk) == {"FleetRolloutAwaitsApproval": {rollout}}
    desk.ben.post(f"/v1/rollouts/{rollout}/approve", json={})
    desk.anna.post(f"/v1/rollouts/{rollout}/start")
    desk.until(rollout, "paused", seconds=400)
    assert ringing_but_for_time(desk) == {"FleetRolloutStageInconclusive": {rollout}}
    desk.fleet.pass_s(1000)
    assert ringing_but_for_time(desk) == {
        "FleetRolloutStageInconclusive": {rollout},
        "FleetRolloutPaused": {rollout},
    }
    desk.anna.post(f"/v1/rollouts/{rollout}/cancel", json={"reason": "seen"})
    assert ringing_but_for_time(desk) == {}


def test_alerts_on_rollouts_that_go_badly_ring(desk: RolloutDesk) -> None:
    desk.fleet.enrol(*names(10, "bad"), fate="reverted")
    desk.fleet.enrol("gone-1", fate="vanishes")
    rollout = desk.started(1, stage(rules={"min_devices": 15, "max_bad_share": 0.7, "max_wait_s": DAY_S}))
    desk.fleet.rounds(3)
    assert ringing_but_for_time(desk) == {"FleetRolloutManyBad": {rollout}}
    desk.fleet.pass_s(4 * 3600)
    desk.fleet.rounds(2)
    found = ringing_but_for_time(desk)
    assert found["FleetRolloutDevicesStuck"] == {rollout}
    assert found["FleetRolloutHalted"] == {rollout}


def test_alerts_on_work_that_the_server_leaves_ring(desk: RolloutDesk) -> None:
    desk.started(1)
    RolloutService(desk.fleet.store, desk.fleet.clock, desk.fleet.audit).step()
    desk.fleet.pass_s(301)
    assert set(ringing_but_for_time(desk)) == {"FleetAssignmentsNotSigned"}
    desk.fleet.service.step()
    assert ringing_but_for_time(desk) == {}
    desk.fleet.pass_s(301)
    assert set(ringing_but_for_time(desk)) == {"FleetDesiredStatesNotPublished"}
    desk.fleet.deliver()
    assert ringing_but_for_time(desk) == {}


def test_alerts_on_metadata_ring_long_before_it_runs_out(desk: RolloutDesk) -> None:
    desk.fleet.pass_s(20 * 3600)
    assert ringing_but_for_time(desk) == {"FleetMetadataNotKeptFresh": {"timestamp"}}
    keep_fresh(desk)
    assert ringing_but_for_time(desk) == {}
    desk.fleet.pass_s(65 * DAY_S)
    keep_fresh(desk)
    assert ringing_but_for_time(desk) == {"FleetMetadataRunsOutSoon": {"models", "configurations"}}
    desk.fleet.pass_s(30 * DAY_S)
    keep_fresh(desk)
    assert ringing_but_for_time(desk)["FleetMetadataHasRunOut"] == {"models", "configurations"}


def test_an_alert_rings_where_the_server_stands_still(desk: RolloutDesk) -> None:
    desk.fleet.pass_s(121)
    assert ringing(desk) == {"FleetRolloutsStandStill": {""}}
    said = [one["text"] for one in desk.vera.get("/v1/health").json()["warnings"]]
    assert any(text.startswith("none was looked at since ") for text in said), said
    desk.api.application.services.rollouts.step()
    assert ringing(desk) == {}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("a > 1", {"x": 2.0}),
        ("a * 2 > 1", {"x": 4.0, "y": 2.0}),
        ("a / b < 3", {"x": 1.0}),
        ("a - b >= 0", {"x": 0.0}),
        ('a{l="y"} > 0', {"y": 1.0}),
        ('a{l!~"y|z"} > 0', {"x": 2.0}),
        ("sum by (m) (a) > 2", {"": 3.0}),
        ("max by (l) (time() - a) >= 99", {"y": 99.0}),
        ("a > 5", {}),
        ("a > b", {}),
    ],
)
def test_expressions_are_what_prometheus_makes_of_them(expression: str, found: dict[str, float]) -> None:
    scrape = Scrape('# TYPE a gauge\na{l="x"} 2\na{l="y"} 1\n# TYPE b gauge\nb{l="x"} 2\nb{l="z"} 0\n', 100.0)
    series = scrape.evaluate(expression)
    assert {dict(labels).get("l", ""): value for labels, value in series.items()} == found


@pytest.mark.parametrize(
    "expression",
    ["rate(a[5m]) > 0", "a >", "(a > 1", "a{l=x} > 1", "sum(a) > 1", "a ? b", "1", "1 > a", "a b"],
)
def test_what_is_not_known_is_not_read(expression: str) -> None:
    with pytest.raises(Unreadable):
        Scrape("", 0.0).evaluate(expression)
