"""The section about delivery: located problems, a proxy's password that nobody sees, settings that fit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.config import InvalidConfig, label_checks, load_config
from edge_runtime.config.delivery import DeliveryConfig
from edge_runtime.outbox import OutboxSettings
from edge_runtime.telemetry import redact
from edge_runtime.uplink.settings import UplinkSettings

Write = Callable[[Any], Path]

SITE = """\
models: {faces: {package: faces}, people: {package: people}}
cameras: {dock: {source: {kind: synthetic}, model: people, data_class: internal}}
"""
SECRET = "s3cr3t-of-the-proxy"


def _site(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(SITE + text)
    return path


def test_without_the_section_nothing_leaves(tmp_path: Path) -> None:
    assert load_config(_site(tmp_path, "")).config.delivery is None
    assert load_config(_site(tmp_path, "delivery: {}\n")).config.delivery == DeliveryConfig()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("delivery: 5", "delivery: must be a section with keys, not a number"),
        ("delivery: {polcy: p}", "did you mean policy?"),
        ("delivery: {policy: 5}", "delivery.policy: must be text"),
        ("delivery: {ring_bytes: 5}", "delivery.ring_bytes: must be at least 65536"),
        ("delivery: {outbox: {reserve_share: 1}}", "delivery.outbox.reserve_share: must be at most 0.9"),
        ("delivery: {redaction: {kind: region}}", "did you mean regions?"),
        ("delivery: {redaction: {kind: regions}}", "delivery.redaction.model: is missing"),
        ("delivery: {redaction: {kind: regions, model: face}}", "there is no model named face"),
        ("delivery: {redaction: {kind: regions, model: faces, min_score: 0.9}}", "must be at most 0.5"),
        ("delivery: {redaction: {kind: regions, model: faces, labels: [a, a]}}", "listed twice"),
        ("delivery: {uplink: {profile: 5g}}", "must be one of lan, lte"),
        ("delivery: {uplink: {daily_bytes: 1}}", "must be at least 10000"),
        ("delivery: {uplink: {proxy: 'socks5://proxy:1080'}}", "must begin with http://"),
        ("delivery: {uplink: {proxy: 'http://proxy'}}", "must end with the proxy's port"),
        ("delivery: {uplink: {proxy: 'http://proxy:3128/x'}}", "nothing behind the port"),
        ("delivery: {uplink: {server_url: 'http://fleet'}}", "must begin with https://"),
        ("delivery: {uplink: {server_url: 'https://u:p@fleet'}}", "must hold no credentials"),
        ("delivery: {uplink: {broker: {port: 8883}}}", "delivery.uplink.broker.host: is missing"),
    ],
)
def test_problems_have_a_line_and_a_place(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as error:
        load_config(_site(tmp_path, text))
    assert len(error.value.problems) == 1
    assert said in str(error.value)
    assert "site.yaml:3: delivery" in str(error.value)


def test_the_password_of_a_proxy_is_seen_by_the_uplink_alone(tmp_path: Path) -> None:
    (tmp_path / "proxy.secret").write_text(f"http://site:{SECRET}@proxy:3128\n")
    (tmp_path / "proxy.secret").chmod(0o600)
    named = load_config(_site(tmp_path, "delivery: {uplink: {proxy: '${file:proxy.secret}'}}"))
    assert not any("password" in warning.text for warning in named.warnings)
    written = load_config(
        _site(tmp_path, f"delivery: {{uplink: {{proxy: 'http://site:{SECRET}@proxy:3128'}}}}")
    )
    assert any(warning.path == "delivery.uplink.proxy" for warning in written.warnings)
    for loaded in (named, written):
        assert loaded.config.delivery is not None
        assert SECRET not in repr(loaded.config) + loaded.config.model_dump_json() + repr(loaded.warnings)
        assert UplinkSettings.model_validate(loaded.config.delivery.uplink_settings()).proxy == (
            f"http://site:{SECRET}@proxy:3128"
        )
    assert SECRET not in redact(f"connecting with {SECRET}")
    other = load_config(
        _site(tmp_path, "delivery: {uplink: {proxy: 'http://site:other-password@proxy:3128'}}")
    )
    assert other.digest == written.digest


def test_a_wrong_proxy_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as error:
        load_config(_site(tmp_path, f"delivery: {{uplink: {{proxy: 'http://site:{SECRET}@proxy'}}}}"))
    assert SECRET not in str(error.value)


def test_other_processes_accept_the_settings(tmp_path: Path) -> None:
    text = """\
delivery:
  outbox: {quota_bytes: 1000000, held_quota_bytes: 500000, evidence_keep: 60, decisions_kept: 2000}
  uplink:
    profile: lte
    daily_bytes: 20000000
    protocol: 5
    broker: {host: broker.site, port: 443, transport: websockets}
    server_url: https://fleet.site:8443
    health_period: 300
"""
    delivery = load_config(_site(tmp_path, text)).config.delivery
    assert delivery is not None
    outbox = OutboxSettings.model_validate_json(json.dumps(delivery.outbox_settings()))
    assert (outbox.quota_bytes, outbox.held_quota_bytes) == (1_000_000, 500_000)
    assert (outbox.evidence_keep_s, outbox.decisions_kept) == (60.0, 2000)
    uplink = UplinkSettings.parse(json.dumps(delivery.uplink_settings()))
    assert (uplink.profile.value, uplink.daily_bytes, uplink.protocol.value) == ("lte", 20_000_000, "5")
    assert uplink.broker is not None
    assert (uplink.broker.host, uplink.broker.port, uplink.broker.transport.value) == (
        "broker.site",
        443,
        "websockets",
    )
    assert uplink.health_period_s == 300.0


def test_defaults_are_those_of_the_processes() -> None:
    delivery = DeliveryConfig()
    assert OutboxSettings.model_validate(delivery.outbox_settings()) == OutboxSettings()
    assert UplinkSettings.model_validate(delivery.uplink_settings()) == UplinkSettings()


def test_a_model_for_redaction_is_a_model_in_use_and_must_know_the_labels(tmp_path: Path) -> None:
    text = "delivery: {redaction: {kind: regions, model: faces, labels: [fase]}}"
    loaded = load_config(_site(tmp_path, text))
    assert not any("no camera uses" in warning.text for warning in loaded.warnings)
    (finding,) = label_checks(loaded.config, {"faces": ["face"], "people": ["person"]})
    assert finding == (("delivery", "redaction", "labels", 0), finding[1])
    assert "did you mean face?" in finding[1]
