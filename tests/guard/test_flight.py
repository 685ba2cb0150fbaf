"""What the guard writes into the flight ring always fits, and is JSON."""

import json
import os

import pytest

from edge_runtime.guard.conditions import WIDTH, conditions_in
from edge_runtime.guard.flight import REPEAT_NS, Flight, act_payload, change_payload
from edge_runtime.guard.memory import Change, State
from edge_runtime.guard.ring import LARGEST_PAYLOAD, Kind, RingReader, RingWriter

ALL = (1 << WIDTH) - 1
MS = 1_000_000


@pytest.mark.parametrize("causes", [0, 1, 0b111, ALL, ALL >> 5, 1 << 20 | 1 << 2])
def test_as_many_causes_as_fit_and_how_many_there_are_besides(causes: int) -> None:
    change = Change(5, State.STOPPED, State.LOCKOUT, causes, "f" * 64)
    payload = change_payload(change)
    assert len(payload) <= LARGEST_PAYLOAD
    told = json.loads(payload)
    assert (told["before"], told["state"], told["latch"]) == ("STOPPED", "LOCKOUT", "f" * 64)
    names = [condition.value for condition in conditions_in(causes)]
    if told["causes"] != names:
        *kept, more = told["causes"]
        assert kept == names[: len(kept)]
        assert more == f"+{len(names) - len(kept)}"


def test_a_second_has_one_summary_with_its_worst_lateness_whatever_the_mode_is_called() -> None:
    ring = RingWriter(8)
    flight, reader = Flight(ring), RingReader(os.dup(ring.fd))
    largest = (1 << 63) - 1
    summary = {
        "state": "RECOVERY",
        "mode": '\u20ac\n\\"' * 50,
        "permit": False,
        "tripped": f"{(1 << 64) - 1:x}",
        "not_evaluated": f"{(1 << 64) - 1:x}",
        "turns": 10**9,
    }
    for at_ms, late_ns in ((0, 3_000), (10, 10**12), (999, 5_000), (1_000, 7_000), (1_500, 0)):
        flight.turn(at_ms * MS, late_ns, summary)
    first, second = reader.take(10)
    assert (first.kind, first.at_ns, second.at_ns) == (Kind.TURN, 0, 1_000 * MS)
    assert json.loads(first.payload)["late_worst_us"] == 3
    told = json.loads(second.payload)
    assert told["late_worst_us"] == 10**9
    assert told["mode"] == "?" * 24
    flight.turn(3_000 * MS, largest, summary | {"turns": largest})
    assert json.loads(reader.take(1)[0].payload)["turns"] == largest
    ring.close()
    reader.close()


def test_what_somebody_asked_for_fits_however_long_the_words_are() -> None:
    act = {"ask": "acknowledge", "by": "\u20ac" * 64, "note": "n" * 500, "latch": "0123456789ab"}
    payload = act_payload(act)
    assert len(payload) <= LARGEST_PAYLOAD
    told = json.loads(payload)
    assert (told["ask"], told["latch"]) == ("acknowledge", "0123456789ab")
    assert act["by"].startswith(told["by"])
    assert told["by"]
    assert act["note"].startswith(told["note"])


def test_who_asks_all_the_time_does_not_push_out_what_happened() -> None:
    ring = RingWriter(64)
    flight, reader = Flight(ring), RingReader(os.dup(ring.fd))
    for turn in range(1000):
        flight.acts([{"ask": "arm"}, {"refused": "the state is SAFE"}], turn * MS)
    flight.acts([{"ask": "arm"}], REPEAT_NS)
    entries = reader.take(100)
    assert [(entry.kind, json.loads(entry.payload)) for entry in entries] == [
        (Kind.ACT, {"ask": "arm"}),
        (Kind.ACT, {"refused": "the state is SAFE"}),
        (Kind.ACT, {"ask": "arm"}),
    ]
    flight.acts([{"ask": "arm", "note": str(number)} for number in range(100)], REPEAT_NS)
    kept = reader.take(1000)
    assert len(kept) + reader.lost == 100, "each is written, and what was overwritten is counted"
