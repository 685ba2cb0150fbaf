"""What the guard is told at its start: each setting that cannot be used is named in one sentence."""

import json
from typing import Any

import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.guard.settings import LARGEST_SETTINGS, Ends, parse
from tests.rigs.guard_bodies import CAMERA, CART
from tests.rigs.guarded import worker_row

MS = 1_000_000


def document(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "device": "robot-1",
        "directory": "/var/lib/edge-runtime/guard",
        "control": "/run/edge-runtime/guard.sock",
        "profile": CAMERA,
        "processes": list(rows or (worker_row("perception"),)),
        "keys": {"ann": "0f" * 32},
        "configuration": [{"path": "/etc/device.yaml", "sha256": "ab" * 32}],
        "hardware_watchdog": {"path": "/dev/watchdog", "timeout_s": 30},
        "real_time": True,
        "arms_itself": True,
    } | changes


def parsed(*rows: dict[str, Any], **changes: Any) -> Any:
    return parse(json.dumps(document(*rows, **changes)).encode())


def test_everything_that_is_told_is_read() -> None:
    row = worker_row("perception") | {
        "after": ["outbox"],
        "critical": False,
        "ends": "done",
        "ring": True,
        "stop_ms": 700,
        "start_ms": 20,
        "start_longest_ms": 50,
        "settings": {"a": 1},
    }
    settings = parsed(worker_row("outbox"), row)
    assert (settings.device, settings.control) == ("robot-1", "/run/edge-runtime/guard.sock")
    assert settings.keys == {"ann": "0f" * 32}
    assert settings.configuration == (("/etc/device.yaml", "ab" * 32),)
    assert settings.hardware == ("/dev/watchdog", 30)
    assert (settings.real_time, settings.arms_itself) == (True, True)
    outbox, perception = settings.rows
    assert (outbox.critical, outbox.ends, outbox.ring, outbox.settings) == (True, Ends.NEVER, False, b"")
    assert outbox.start_longest_ns == 10 * outbox.start_ns
    assert (perception.critical, perception.ends, perception.ring) == (False, Ends.DONE, True)
    assert (perception.start_ns, perception.start_longest_ns) == (20 * MS, 50 * MS)
    assert (perception.stop_ns, perception.after) == (700 * MS, ("outbox",))
    assert json.loads(perception.settings) == {"a": 1}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"critical": 1}, r"processes\[0\].critical: not true or false"),
        ({"ends": "sometimes"}, r"processes\[0\].ends: not one of never, done, always"),
        ({"ends": None}, r"processes\[0\].ends: not a text"),
        ({"ring": "yes"}, r"processes\[0\].ring: not true or false"),
        ({"stop_ms": 0}, r"processes\[0\].stop_ms: not a whole number from 1 to 3600000"),
        ({"start_ms": 20, "start_longest_ms": 19}, r"start_longest_ms: not a whole number from 20 to"),
        ({"command": []}, r"processes\[0\].command: empty"),
        ({"more": 1}, r"processes\[0\].more: no such setting"),
        ({"settings": "x" * 40_000}, r"processes\[0\].settings: longer than 32768 bytes"),
        ({"name": "a name that is far too long"}, r"processes\[0\].name: not a text of 1 to 15"),
        ({"after": ["nobody"]}, "perception waits for nobody, which does not come before it"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parsed(worker_row("perception") | change)


@pytest.mark.parametrize("name", sorted(worker_row("perception")))
def test_all_of_a_row_has_to_be_there(name: str) -> None:
    row = worker_row("perception")
    del row[name]
    with pytest.raises(ConfigError, match=rf"processes\[0\]\.{name}: missing"):
        parsed(row)


@pytest.mark.parametrize("name", sorted(document()))
def test_all_settings_have_to_be_there(name: str) -> None:
    told = document()
    del told[name]
    with pytest.raises(ConfigError, match=rf"settings\.{name}: missing"):
        parse(json.dumps(told).encode())


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"{", "settings: not JSON"),
        (b'{"device": 1, "device": 2}', "settings: not JSON: a key twice"),
        (b"[]", "settings: not an object"),
        (b" " * (LARGEST_SETTINGS + 1), "settings: longer than"),
    ],
)
def test_what_is_no_settings_at_all(data: bytes, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse(data)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"processes": [worker_row("a"), worker_row("a")]}, "a is there twice"),
        ({"configuration": [{"path": "/x", "sha256": "AB" * 32}]}, r"configuration\[0\]\.sha256: not 64"),
        ({"keys": {"ann": "0f"}}, r"keys\.ann: not 64 hexadecimal digits"),
        ({"keys": []}, "keys: not an object"),
        ({"hardware_watchdog": {"path": "/dev/watchdog"}}, r"hardware_watchdog\.timeout_s: missing"),
        ({"profile": CART}, "arms_itself: only where nothing can move"),
        ({"processes": [worker_row("a") | {"lives_on": True}]}, "arms_itself: only where nothing can move"),
    ],
)
def test_settings_that_cannot_be_used_together_or_at_all(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parsed(**change)


def test_a_body_that_travels_does_not_arm_itself_but_may_be_armed() -> None:
    assert not parsed(profile=CART, arms_itself=False).arms_itself
