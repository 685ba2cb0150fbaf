"""What may be injected, and the sentence for everything else."""

import itertools

import pytest

from edge_runtime.faults import EFFECTS, FaultRefused, Kind, Unit, effect_of, injection


def make(unit: str = "camera", kind: str = "off", **given: object) -> object:
    fields: dict[str, object] = {"id": "00000001", "begins_ns": 0, "for_s": 5.0, "boot_id": "b", **given}
    return injection(unit, kind, **fields)  # type: ignore[arg-type]


def test_every_combination_is_supported_or_refused_with_a_reason() -> None:
    for unit, kind in itertools.product(Unit, Kind):
        if (unit, kind) in EFFECTS:
            assert effect_of(unit.value, kind.value)[2] is EFFECTS[unit, kind]
            continue
        with pytest.raises(FaultRefused, match=rf"{unit.value} {kind.value} is not injected: .{{20}}"):
            effect_of(unit.value, kind.value)


@pytest.mark.parametrize(
    "unit", ["guard", "lease", "motion_gate", "estop", "clock", "network", "outbox", "policy"]
)
@pytest.mark.parametrize("kind", [kind.value for kind in Kind])
def test_what_decides_about_motion_or_about_leaving_is_never_made_to_lie(unit: str, kind: str) -> None:
    with pytest.raises(FaultRefused, match=f"{unit} {kind} is not injected: .*;"):
        effect_of(unit, kind)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"unit": "lidar"}, "there is no unit 'lidar'; units are camera"),
        ({"kind": "explode"}, "there is no fault 'explode'; faults are off, stuck"),
        ({"for_s": 0.0}, "more than 0 and at most 86400 s"),
        ({"for_s": float("nan")}, "more than 0"),
        ({"for_s": 86_401.0}, "at most 86400 s"),
        ({"amount": 1.0}, "camera off takes no amount"),
        ({"kind": "slow", "amount": 0.0}, "is 0.2 to 3600 s"),
        ({"kind": "delayed", "amount": float("inf")}, "is 0.01 to 5 s"),
        ({"name": "../x"}, "is no name of a camera"),
    ],
)
def test_nonsense_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(FaultRefused, match=says):
        make(**given)  # type: ignore[arg-type]
