"""A whole device, as its user runs it, goes by the configuration that the fleet assigned."""

import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from edge_runtime.config import load_config
from edge_runtime.protocol.swap import Look, SwapAnswer, line_of
from edge_runtime.protocol.update import CONFIGURATION_SLOT, UpdateCode
from edge_runtime.updates.store import MAX_TRIAL_STARTS, ReleaseStore, trial_starts
from tests.rigs.cameras import wait_until
from tests.rigs.devices import RunningDevice, log_of, running_device, write_device
from tests.rigs.stored_releases import put_configuration
from tests.rigs.swapping import ask_at

SLOT = CONFIGURATION_SLOT
RULE = "cameras: {yard: {rules: [{kind: absence, name: '${values.name}', seconds: 0.3}]}}\n"


def test_a_device_runs_what_was_assigned_and_names_it_in_its_events(
    tmp_path: Path, media: Path, yolox_package: Path
) -> None:
    config = write_device(
        tmp_path, yolox_package, {"kind": "file", "path": str(media / "vtest.avi")}, updates={}
    )
    before = config.read_bytes()
    store = ReleaseStore(tmp_path / "state" / "updates", reserve_bytes=0)
    release = put_configuration(
        store, "cameras: {yard: {rules: [{kind: occupancy, name: seen, at_least: 1, hold: 0}]}}\n"
    )
    store.begin_trial(SLOT, release)
    store.commit(SLOT)
    events = tmp_path / "events.ndjson"
    with running_device(config, "--max-frames", "20", "--events", str(events)) as device:
        assert device.process.wait(100) == 0, log_of(config)
    found = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    assert {event["rule"] for event in found} == {"seen"}
    digests = {event["config"] for event in found}
    assert len(digests) == 1
    assert digests != {load_config(config).digest}
    assert config.read_bytes() == before


@pytest.mark.trial
def test_perception_that_keeps_dying_with_it_goes_back_by_itself(tmp_path: Path, yolox_package: Path) -> None:
    """No other process has a say in it."""
    config = write_device(tmp_path, yolox_package, updates={})
    store = ReleaseStore(tmp_path / "state" / "updates", reserve_bytes=0)
    good, bad = put_configuration(store, RULE), put_configuration(store, RULE + "# other\n")
    store.begin_trial(SLOT, good, {"name": "good"})
    store.commit(SLOT)
    store.begin_trial(SLOT, bad, {"name": "bad"})
    with running_device(config) as device:
        for start in range(1, MAX_TRIAL_STARTS + 1):
            assert wait_until(partial(is_at, device, store, bad, start), 90), f"{start}: {log_of(config)}"
            os.kill(device.worker("perception")["pid"], signal.SIGKILL)
        assert wait_until(lambda: runs(device) == good, 90), log_of(config)
        answer = ask_at(device.state.perception_socket, line_of(Look(slot=SLOT)))
    given_up = answer.slots[0].given_up
    assert given_up is not None
    assert (given_up.release, given_up.code) == (bad, UpdateCode.CRASH_LOOP)


def runs(device: RunningDevice) -> str | None:
    """The configuration that perception goes by; None where it does not answer."""
    try:
        answer: SwapAnswer = ask_at(device.state.perception_socket, line_of(Look(slot=SLOT)))
    except (OSError, ValueError):
        return None
    return answer.slots[0].running.release if answer.ok else None


def is_at(device: RunningDevice, store: ReleaseStore, release: str, start: int) -> bool:
    return runs(device) == release and trial_starts(store.places.root, SLOT, release) == start
