"""The configuration in a recording: without credentials, and of it what replaying needs."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.config import load_config
from edge_runtime.config.load import digest
from edge_runtime.errors import ConfigError
from edge_runtime.recording import ConfigFacts, RecordingError
from edge_runtime.recording.configuration import facts_of, needed, parsed
from tests.rigs.recordings import CAMERA, RULES, write_config

DELIVERS: dict[str, Any] = {
    "delivery": {"policy": "policy.yaml"},
    "guard": {"monitor": {"temperature": "none", "root": "/tmp/tree", "disk_free": 0.5}},
    "events": {"max_bytes": 2048, "labels": {"person": "somebody"}, "file": "events.ndjson"},
}


def test_no_credential_is_in_it_and_its_digest_is_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAMERA_PASSWORD", "swordfish")
    path = write_config(tmp_path, **DELIVERS)
    text = path.read_text().replace("hunter2@", "${env:CAMERA_PASSWORD}@")
    for content, secret in ((path.read_text(), "hunter2"), (text, "swordfish")):
        path.write_text(content)
        loaded = load_config(path)
        facts = facts_of(loaded)
        assert secret not in json.dumps(facts.model_dump(mode="json"))
        assert facts.digest == loaded.digest == digest(facts.content)


def test_a_file_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    loaded = load_config(path)
    write_config(tmp_path, RULES[:1])
    with pytest.raises(ConfigError, match="changed while it was read"):
        facts_of(loaded)


def test_what_replaying_needs_says_nothing_of_where_things_are(tmp_path: Path) -> None:
    facts = needed(facts_of(load_config(write_config(tmp_path, **DELIVERS))))
    text = json.dumps(facts.model_dump(mode="json"))
    for word in ("rtsp", "camera.invalid", "policy.yaml", "/tmp/tree", "events.ndjson", "absent"):
        assert word not in text
    config = parsed(facts)
    camera = config.cameras[CAMERA]
    assert [rule.name for rule in camera.rules] == [rule["name"] for rule in RULES]
    assert not any(rule.evidence for rule in camera.rules)
    assert config.events.max_bytes == 2048
    assert config.guarding.monitor.disk_free == 0.5
    assert needed(facts) == facts


def test_content_that_is_no_configuration_is_one_sentence() -> None:
    facts = ConfigFacts(
        digest="sha256:" + "0" * 64, content={"cameras": {"a": {"rules": [{"kind": "magic"}]}}}
    )
    with pytest.raises(RecordingError, match=r"cannot be used: .*name another one with --config"):
        parsed(facts)
