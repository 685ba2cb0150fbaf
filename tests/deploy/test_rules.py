"""Alerts on server and devices: they read what is exported, ring when they should, and are in the runbook."""

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from edge_runtime.cli.commands import COMMANDS as DEVICE
from edge_runtime.clock import NS_PER_S
from edge_runtime.guard.memory import State
from edge_runtime.telemetry.guard_metrics import _conditions, _guard, _workers
from edge_runtime.telemetry.metrics import Metrics
from fleet_server.cli.commands import COMMANDS as FLEET
from fleet_server.http.metrics import HttpMetrics
from fleet_server.ingest.metrics import IngestMetrics
from fleet_server.operators import Role
from fleet_server.serve.machine_numbers import machine_gauges
from tests.conftest import REPOSITORY
from tests.prometheus.test_alerts import Alert, RuleFile
from tests.rigs.fleet_api import fleet_api
from tests.rigs.promql import Scrape, selectors

FOLDER = REPOSITORY / "deploy/prometheus"
RUNBOOK = REPOSITORY / "docs/operations.md"
FILES = ("server.yml", "device.yml", "rollouts.yml")
PROMETHEUS_ITSELF = {"up"}
STATUS = {
    "state": State.NOMINAL.value,
    "since_ms": 1,
    "permit": True,
    "lease_ms": 40,
    "latch": {"causes": ["e_stop"]},
    "late_worst_us": 1,
    "turns": 1,
    "facts": {"fifo": True},
    "tripped": ["disk_full"],
    "not_evaluated": ["power"],
    "workers": [{"name": "perception", "starts": 1, "phase": "working", "age_ms": 5}],
}


def alerts(file: str) -> dict[str, Alert]:
    text = (FOLDER / file).read_text().replace("alert: Edge", "alert: FleetEdge")  # one form for both
    groups = RuleFile.model_validate(yaml.safe_load(text)).groups
    return {rule.alert.replace("FleetEdge", "Edge"): rule for group in groups for rule in group.rules}


ALERTS = {file: alerts(file) for file in FILES}
NEW = {name: rule for file in FILES[:2] for name, rule in ALERTS[file].items()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """Every metric that a server or a device exports, with its labels."""
    folder = tmp_path_factory.mktemp("server")
    found: dict[str, set[str]] = {}
    device = Metrics()
    for family in device.registry.collect():
        names = {f"{family.name}_total"} if family.type == "counter" else {family.name}
        for name in names:
            found[name] = set(_labels_of(device, family.name))
    for part in (_guard, _conditions, _workers):
        for family in part(STATUS):
            for sample in family.samples:
                found[sample.name] = set(sample.labels)
    found["edge_guard_up"] = set()
    for api in fleet_api(folder, f"sqlite:///{folder / 'fleet.db'}"):
        api.add_device("dock-1")
        text = api.client(Role.VIEWER).get("/metrics").text
        machine = HttpMetrics()
        paths = api.application.settings.paths
        machine.observe(lambda paths=paths: machine_gauges(paths))  # type: ignore[misc]
        ingest = IngestMetrics(0)
        text += machine.text().decode() + ingest.text().decode()
        scrape = Scrape(text, api.clock.wall().unix_ns / NS_PER_S)
        for name, samples in scrape.samples.items():
            found[name] = {label for labels, _ in samples for label in labels}
        found["fleet_dead_letters"] = {"code"}
        yield found


def _labels_of(metrics: Metrics, name: str) -> tuple[str, ...]:
    for collector in metrics.registry._collector_to_names:
        if getattr(collector, "_name", "") == name:
            return tuple(getattr(collector, "_labelnames", ()))
    return ()


@pytest.mark.parametrize("name", NEW)
def test_an_alert_reads_what_is_exported(exported: dict[str, set[str]], name: str) -> None:
    found = selectors(NEW[name].expr)
    assert found
    for wanted in found:
        if wanted.name in PROMETHEUS_ITSELF:
            continue
        assert wanted.name in exported, wanted.name
        assert {label for label, _, _ in wanted.matchers} <= exported[wanted.name], wanted


SERVER_IS_WELL = """
up{job="fleet"} 1
fleet_ready{part="database"} 1
fleet_ingest_store_up{worker="0"} 1
fleet_ingest_broker_up{worker="0"} 1
fleet_ingest_queue_bytes{worker="0"} 100
fleet_unexplained_events 0
fleet_dead_letters{code="expired"} 3
fleet_devices_online 95
fleet_devices{state="active"} 100
fleet_disk_bytes 1000
fleet_disk_free_bytes 500
fleet_backup_point_seconds 1699999000
fleet_certificate_ends_seconds{certificate="server"} 1720000000
fleet_certificate_ends_seconds{certificate="authority"} 2300000000
edge_guard_up 1
edge_guard_latched 0
edge_guard_worker_working{worker="perception"} 1
edge_outbox_balanced 1
edge_outbox_events{fate="queued"} 4
edge_gate_held 0
edge_source_state{camera="dock",state="running"} 1
edge_source_state{camera="dock",state="stalled"} 0
edge_model_degraded{model="m"} 0
edge_frame_share 1
"""
NOW_S = 1_700_000_000.0
RINGS = {
    "FleetServerDown": 'up{job="fleet"} 0',
    "FleetPartNotReady": 'fleet_ready{part="database"} 0',
    "FleetIngestStoreDown": 'fleet_ingest_store_up{worker="0"} 0',
    "FleetIngestBrokerDown": 'fleet_ingest_broker_up{worker="0"} 0',
    "FleetIngestFallsBehind": 'fleet_ingest_queue_bytes{worker="0"} 60000000',
    "FleetEventsUnexplained": "fleet_unexplained_events 2",
    "FleetDeadLetters": 'fleet_dead_letters{code="expired"} 101',
    "FleetManyDevicesAway": "fleet_devices_online 60",
    "FleetDiskFillsUp": "fleet_disk_free_bytes 99",
    "FleetBackupOld": "fleet_backup_point_seconds 0",
    "FleetCertificateEndsSoon": 'fleet_certificate_ends_seconds{certificate="server"} 1700100000',
    "FleetAuthorityEndsSoon": 'fleet_certificate_ends_seconds{certificate="authority"} 1720000000',
    "EdgeGuardAbsent": "edge_guard_up 0",
    "EdgeGuardLatched": "edge_guard_latched 1",
    "EdgeConditionHolds": 'edge_guard_tripped{condition="disk_full"} 1',
    "EdgeConditionNotEvaluated": 'edge_guard_not_evaluated{condition="power"} 1',
    "EdgeWorkerSilent": 'edge_guard_worker_working{worker="perception"} 0',
    "EdgeOutboxUnbalanced": "edge_outbox_balanced 0",
    "EdgeOutboxFills": 'edge_outbox_events{fate="queued"} 1001',
    "EdgeOutboxRefuses": 'edge_outbox_not_accepted{reason="full"} 1',
    "EdgeHeldForADay": "edge_gate_held 1",
    "EdgeCameraSilent": 'edge_source_state{camera="dock",state="stalled"} 1',
    "EdgeModelDegraded": 'edge_model_degraded{model="m"} 1',
    "EdgeThrottled": "edge_frame_share 0.5",
}


def ringing(text: str) -> set[str]:
    scrape = Scrape(text.lstrip(), NOW_S)
    return {name for name, rule in NEW.items() if scrape.evaluate(rule.expr)}


def test_nothing_rings_where_all_is_well() -> None:
    assert ringing(SERVER_IS_WELL) == set()


def test_every_alert_is_rung() -> None:
    assert set(RINGS) == set(NEW)


@pytest.mark.parametrize("name", RINGS)
def test_an_alert_rings_for_its_cause_and_for_no_other(name: str) -> None:
    line = RINGS[name]
    series = line.rpartition(" ")[0]
    kept = [other for other in SERVER_IS_WELL.splitlines() if other.rpartition(" ")[0] != series]
    assert ringing("\n".join([*kept, line, ""])) == {name}


def test_the_runbook_has_every_alert_and_no_other() -> None:
    entries = re.findall(r"^### (\S+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert len(entries) == len(set(entries))
    assert set(entries) == {name for rules in ALERTS.values() for name in rules}


def test_the_commands_of_the_runbook_exist() -> None:
    tables: dict[str, dict[str, Any]] = {
        "fleet": {row.name: row for row in FLEET},
        "edge-runtime": {row.name: row for row in DEVICE},
    }
    found = re.findall(r"`(fleet|edge-runtime) ([a-z-]+)(?: ([a-z-]+))?", RUNBOOK.read_text())
    assert len(found) > 20
    for program, command, then in found:
        assert command in tables[program], (program, command)
        exits = set(tables[program][command].exits)
        assert exits == {""} or then in exits, (program, command, then)


def test_the_configuration_names_the_rules_and_whom_it_asks() -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert {job["job_name"] for job in config["scrape_configs"]} == {"fleet", "edge"}
    assert config["rule_files"] == ["/etc/prometheus/rules/*.yml"]


@pytest.mark.program("promtool")
def test_prometheus_reads_the_rules() -> None:
    """The strict reader of these tests has read them all; this is what it takes the place of."""
    files = [str(FOLDER / file) for file in FILES]
    done = subprocess.run(
        ["promtool", "check", "rules", *files], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
