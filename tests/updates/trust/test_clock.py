"""Clocks in 1970 and far ahead, with and without a floor, and what a nonce proves."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.protocol.release import BUCKETS, Opening
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust.moment import EARLIEST_MS, JudgedTime, iso
from tests.conftest import REPOSITORY
from tests.rigs.signed_repository import DAY, DAY_MS, SignedRepository, make_release, now, now_ms
from tests.rigs.stepped_clock import SteppedClock
from tests.rigs.trusting_device import TrustingDevice, refusal

NOW = EARLIEST_MS + 300 * DAY_MS
YEAR_MS = 365 * DAY_MS
NONCE = "ab" * 16


@pytest.mark.parametrize(
    ("wall_ms", "synced", "floor_ms", "proved_ms", "judged_ms"),
    [
        (NOW, True, 0, None, NOW),
        (NOW, True, NOW + 5, None, NOW + 5),  # behind what has passed
        (0, False, NOW, None, NOW),  # never set
        (NOW + YEAR_MS, False, NOW, None, NOW + YEAR_MS),  # ahead, and nobody says otherwise
        (NOW + YEAR_MS, False, NOW, NOW + 7, NOW + 7),  # ahead, and a signed answer was made just now
        (NOW + YEAR_MS, False, NOW, NOW - 7, NOW),  # an answer cannot go below the floor
        (NOW, False, 0, NOW + YEAR_MS, NOW),  # nor push the clock forward
        (NOW, True, 0, NOW - YEAR_MS, NOW),  # a clock that is synchronised needs nobody's word
    ],
)
def test_the_time_that_is_believed(
    wall_ms: int, synced: bool, floor_ms: int, proved_ms: int | None, judged_ms: int
) -> None:
    assert JudgedTime(wall_ms, synced, floor_ms).judged_ms(proved_ms) == judged_ms


@pytest.mark.parametrize(
    ("moment", "proved_ms", "code"),
    [
        (JudgedTime(NOW, True, 0), None, None),
        (JudgedTime(NOW + DAY_MS, True, NOW), None, UpdateCode.METADATA_EXPIRED),
        (JudgedTime(NOW + DAY_MS, False, NOW), None, UpdateCode.CLOCK),
        (JudgedTime(NOW + DAY_MS, False, NOW), NOW, None),
        (JudgedTime(NOW + DAY_MS, True, NOW), NOW, UpdateCode.METADATA_EXPIRED),
        (JudgedTime(NOW + DAY_MS, False, NOW + DAY_MS), None, UpdateCode.METADATA_EXPIRED),
        (JudgedTime(0, False, NOW + DAY_MS), NOW, UpdateCode.METADATA_EXPIRED),
        (JudgedTime(0, False, NOW), None, None),
    ],
)
def test_what_an_end_means(moment: JudgedTime, proved_ms: int | None, code: UpdateCode | None) -> None:
    ends = {"root": NOW + YEAR_MS, "timestamp": NOW + DAY_MS}
    assert refusal(lambda: moment.refuse_ended(ends, proved_ms)) is code


def test_the_moment_of_the_end_is_past() -> None:
    ends = {"timestamp": NOW}
    assert refusal(lambda: JudgedTime(NOW - 1, True, 0).refuse_ended(ends)) is None
    assert refusal(lambda: JudgedTime(NOW, True, 0).refuse_ended(ends)) is UpdateCode.METADATA_EXPIRED


def test_a_time_that_is_no_date_is_shown_all_the_same() -> None:
    assert iso(0) == "1970-01-01T00:00:00Z"
    assert iso(1 << 62) == f"{1 << 62} ms"


def test_in_1970_the_floor_counts(fleet: SignedRepository, device: TrustingDevice) -> None:
    """What has ended before the floor has ended, whatever the clock says; the rest is good."""
    release = make_release(1)
    device.clock.set_ms, device.clock.synced = 0, False
    device.restarted()
    assert device.admit(device.assigned(release)).terms == release.terms
    sealed = device.assigned(release, issued_ms=1, expires_ms=device.trust.time_floor_ms())
    with pytest.raises(UpdateRefused) as refused:
        device.admit(sealed)
    assert (refused.value.code, refused.value.again) == (UpdateCode.EXPIRED, True)


def test_in_1970_openings_wait_for_the_floor(fleet: SignedRepository, device: TrustingDevice) -> None:
    later = Opening(basis_points=BUCKETS, not_before_ms=now_ms() + 3_600_000)
    release = fleet.release(2, openings=(later,))
    device.trust.refresh()
    device.clock.set_ms, device.clock.synced = 0, False
    assert refusal(lambda: device.admit(device.assigned(release))) is UpdateCode.RING_CLOSED


def test_in_1970_without_a_floor_nothing_is_judged(fleet: SignedRepository, device: TrustingDevice) -> None:
    device.lose_memory()
    device.clock.set_ms, device.clock.synced = 0, False
    device.restarted()
    assert refusal(lambda: device.admit(device.assigned(make_release(1)))) is UpdateCode.CLOCK
    assert refusal(device.trust.refresh) is UpdateCode.CLOCK
    assert device.trust.time_floor_ms() == 0


def test_the_start_of_the_certificate_is_a_floor(fleet: SignedRepository, device: TrustingDevice) -> None:
    device.lose_memory()
    device.clock.set_ms, device.clock.synced = 0, False
    device.born_ms = now_ms() - DAY_MS
    device.restarted()
    assert device.trust.time_floor_ms() == device.born_ms
    assert device.admit(device.assigned(make_release(1))).terms is not None


def test_far_ahead_nothing_is_admitted_and_nothing_is_lost(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    kept, floor_ms = device.stored(), device.trust.time_floor_ms()
    device.clock.ahead_ms, device.clock.synced = 20 * YEAR_MS, False
    device.restarted()
    sealed = device.assigned(make_release(1))
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.CLOCK
    assert refusal(device.trust.refresh) is UpdateCode.CLOCK
    assert device.stored() == kept
    assert device.trust.time_floor_ms() == floor_ms  # a wrong clock raises no floor
    device.clock.ahead_ms = 0
    assert device.admit(sealed).terms is not None
    device.trust.refresh()


def test_far_ahead_the_answer_to_this_devices_nonce_is_new(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    device.clock.ahead_ms, device.clock.synced = 20 * YEAR_MS, False
    device.nonce = NONCE
    assert device.admit(device.assigned(make_release(1), nonce=NONCE)).terms is not None
    other = device.assigned(make_release(1), nonce="cd" * 16)
    assert refusal(lambda: device.admit(other)) is UpdateCode.CLOCK


def test_far_ahead_and_synchronised_is_believed(fleet: SignedRepository, device: TrustingDevice) -> None:
    """Somebody who speaks for the time servers can hold a device up. He opens no ring: all has ended by then."""
    device.clock.ahead_ms, device.nonce = 20 * YEAR_MS, NONCE
    sealed = device.assigned(make_release(1), nonce=NONCE)
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.METADATA_EXPIRED
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_EXPIRED


def test_an_answer_to_the_nonce_may_be_past_its_own_end(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    device.nonce = NONCE
    times = {"issued_ms": now_ms() - DAY_MS, "expires_ms": now_ms() - 1}
    assert device.admit(device.assigned(make_release(1), nonce=NONCE, **times)).terms is not None


def test_the_floor_rises_by_refreshing_and_survives(fleet: SignedRepository, device: TrustingDevice) -> None:
    first = device.trust.time_floor_ms()
    assert abs(first - now_ms()) < DAY_MS
    device.clock.ahead_ms = DAY_MS // 2
    device.trust.refresh()
    risen = device.trust.time_floor_ms()
    assert risen >= first + DAY_MS // 2
    device.clock.ahead_ms = -10 * YEAR_MS
    assert device.restarted().time_floor_ms() == risen
    device.trust.refresh()
    assert device.restarted().time_floor_ms() == risen


def test_holding_still_waits_for_no_clock(fleet: SignedRepository, device: TrustingDevice) -> None:
    """Metadata that has ended, or a clock that says so, does not keep a device from doing nothing."""
    device.clock.ahead_ms = 3 * DAY_MS
    assert device.admit(device.assigned(None)).terms is None
    assert refusal(lambda: device.admit(device.assigned(make_release(1)))) is UpdateCode.METADATA_EXPIRED


# ---- the same with the machine's own clock, which tuf reads, stepped under a real process

_PROCESS = """
import json, sys
from pathlib import Path
from edge_runtime.clock import SystemClock
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust import FetchFailed, RunningRelease, Trust
from edge_runtime.protocol.update import UpdateCode
from tests.rigs.trusting_device import DEVICE, FACTS, KEY
import contextlib

class Files:
    @contextlib.contextmanager
    def conversation(self):
        yield self.get
    def get(self, name, max_bytes):
        try:
            return (Path(sys.argv[2]) / name).read_bytes()
        except FileNotFoundError:
            raise FetchFailed(UpdateCode.METADATA_UNAVAILABLE, name, 404) from None

trust = Trust(Path(sys.argv[1]), device=DEVICE, key_sha256=KEY, fetch=Files(), clock=SystemClock())
def code(act):
    try:
        act()
    except UpdateRefused as refused:
        return refused.code.value
def admit():
    running = {"detector": RunningRelease(None, 0, None)}
    trust.admit(Path(sys.argv[3]).read_bytes(), last_seq=0, nonce=None, running=running, facts=FACTS, denied=())
print(json.dumps({"refresh": code(trust.refresh), "admit": code(admit), "floor": trust.time_floor_ms()}))
"""


def in_a_process(
    clock: SteppedClock, device: TrustingDevice, served: Path, sealed: bytes
) -> dict[str, object]:
    """A refresh and an admission by a real process under a stepped clock."""
    envelope = served.with_suffix(".envelope")
    envelope.write_bytes(sealed)
    ran = subprocess.run(
        [sys.executable, "-c", _PROCESS, str(device.folder), str(served), str(envelope)],
        check=True,
        capture_output=True,
        cwd=REPOSITORY,
        env={**os.environ, **clock.variables},
    )
    found: dict[str, object] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(
    ("name", "ahead_ms", "synced", "month_old", "refresh", "admit"),
    [
        ("right", 0, True, False, None, None),
        ("1970", -56 * YEAR_MS, False, False, None, None),
        (
            "1970, and somebody serves what ended a month ago",
            -56 * YEAR_MS,
            False,
            True,
            "metadata-expired",
            None,
        ),
        ("2047", 20 * YEAR_MS, False, False, "clock", "clock"),
        ("2047, as the time servers say", 20 * YEAR_MS, True, False, "metadata-expired", "metadata-expired"),
    ],
)
def test_stepped_under_a_process(
    name: str,
    ahead_ms: int,
    synced: bool,
    month_old: bool,
    refresh: str | None,
    admit: str | None,
    fleet: SignedRepository,
    device: TrustingDevice,
    tmp_path: Path,
) -> None:
    release, floor_ms = make_release(1), device.trust.time_floor_ms()
    if month_old:
        fleet.timestamp.expires = now() - 30 * DAY
        fleet.publish("models")
    fleet.write_to(tmp_path / "served")
    clock = SteppedClock(tmp_path / "clock")
    clock.step(ahead_ms / 1000, synced=synced)
    kept = device.stored()
    found = in_a_process(clock, device, tmp_path / "served", device.assigned(release))
    assert (found["refresh"], found["admit"]) == (refresh, admit)
    assert isinstance(found["floor"], int)
    assert floor_ms <= found["floor"] < floor_ms + DAY_MS
    assert device.stored() == kept


def test_refusals_say_what_the_clock_says(fleet: SignedRepository, device: TrustingDevice) -> None:
    device.clock.ahead_ms, device.clock.synced = 20 * YEAR_MS, False
    with pytest.raises(UpdateRefused, match="not synchronised"):
        device.admit(device.assigned(make_release(1)))
