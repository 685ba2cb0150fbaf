"""Who is part of a rollout, in which stage, and why others are not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.protocol.fitting import misfit
from edge_runtime.protocol.release import (
    BUCKETS,
    Fit,
    Opening,
    ReleaseKind,
    ReleaseTerms,
    VersionBounds,
    bucket,
)
from edge_runtime.protocol.update import DeviceFacts, UpdateCode
from fleet_server.rollouts.membership import Candidate, Runs, place, tally
from fleet_server.rollouts.plan_records import RolloutPlan, StagePlan
from fleet_server.rollouts.states import Exclusion

SHA = "a" * 64
FACTS = DeviceFacts(
    hardware=("generic", "jetson-orin"), architecture="aarch64", l4t="36.4.0", runtime="1.2", memory_mb=8000
)


def terms(**said: Any) -> ReleaseTerms:
    values = {"salt": "0" * 16, "openings": (Opening(basis_points=BUCKETS),), "total_bytes": 1}
    return ReleaseTerms(
        kind=ReleaseKind.MODEL, name="people", counter=5, package=f"sha256:{SHA}", **{**values, **said}
    )


def plan(*stages: StagePlan, **said: Any) -> RolloutPlan:
    return RolloutPlan(
        name="test", slot="people", release="people", counter=5, stages=stages or (StagePlan(),), **said
    )


def device(name: str = "dev-1", **said: Any) -> Candidate:
    values = {"state": "active", "labels": {}, "facts": FACTS, "running": Runs(), **said}
    return Candidate(device=name, **values)


@pytest.mark.parametrize(
    ("candidate", "excluded"),
    [
        (device(), None),
        (device(state="revoked"), Exclusion.REVOKED),
        (device(state="pending"), Exclusion.NOT_APPROVED),
        (device(facts=None, running=None), Exclusion.NEVER_SEEN),
        (device(running=None), Exclusion.NO_SUCH_SLOT),
        (device(running=Runs(sha256=SHA, counter=5)), Exclusion.ALREADY_RUNNING),
        (device(running=Runs(sha256="b" * 64, counter=6)), Exclusion.NEWER_RUNS),
        (device(running=Runs(sha256="b" * 64, counter=6, name="people")), Exclusion.NEWER_RUNS),
        (device(running=Runs(sha256="b" * 64, counter=6, name="another")), None),
        (device(running=Runs(sha256="b" * 64, counter=5)), None),
        (device(busy=True), Exclusion.BUSY),
    ],
)
def test_why_a_device_is_not_part(candidate: Candidate, excluded: Exclusion | None) -> None:
    (found,) = place(plan(), terms(), SHA, [candidate])
    assert found.excluded is excluded
    assert (found.stage is None) == (excluded is not None)


@pytest.mark.parametrize(
    ("fit", "code"),
    [
        (Fit(), None),
        (Fit(hardware=("jetson-orin", "other")), None),
        (Fit(hardware=("other",)), UpdateCode.HARDWARE),
        (Fit(architectures=("x86_64",)), UpdateCode.ARCHITECTURE),
        (Fit(compute_capabilities=("8.7",)), UpdateCode.COMPUTE_CAPABILITY),
        (Fit(l4t=VersionBounds(at_least="36")), None),
        (Fit(l4t=VersionBounds(below="36.4")), UpdateCode.L4T),
        (Fit(tensorrt=VersionBounds(at_least="10")), UpdateCode.TENSORRT),
        (Fit(runtime=VersionBounds(at_least="1.3")), UpdateCode.RUNTIME),
        (Fit(memory_mb=8001), UpdateCode.NO_MEMORY),
    ],
)
def test_what_does_not_fit_is_told_by_its_word(fit: Fit, code: UpdateCode | None) -> None:
    assert misfit(fit, FACTS) is code
    (found,) = place(plan(), terms(fit=fit), SHA, [device()])
    assert found.detail == (None if code is None else code.value)
    assert found.excluded is (None if code is None else Exclusion.INCOMPATIBLE)


def test_labels_and_hardware_select_and_what_is_not_selected_is_in_no_count() -> None:
    fleet = [device("a", labels={"site": "x", "ring": "1"}), device("b", labels={"site": "y"}), device("c")]
    assert [one.device for one in place(plan(labels={"site": "x"}), terms(), SHA, fleet)] == ["a"]
    assert place(plan(hardware=("other",)), terms(), SHA, fleet) == []
    unseen = device("d", facts=None, running=None)
    assert [one.excluded for one in place(plan(hardware=("other",)), terms(), SHA, [unseen])] == [
        Exclusion.NEVER_SEEN
    ]


def test_a_device_belongs_to_the_first_stage_that_takes_it() -> None:
    stages = StagePlan(labels={"canary": "yes"}), StagePlan(hardware=("jetson-orin",)), StagePlan()
    fleet = [
        device("a", labels={"canary": "yes"}),
        device("b"),
        device("c", facts=FACTS.model_copy(update={"hardware": ("generic",)})),
    ]
    assert [one.stage for one in place(plan(*stages), terms(), SHA, fleet)] == [0, 1, 2]
    left_out = place(plan(*stages[:2]), terms(), SHA, fleet)[2]
    assert (left_out.stage, left_out.excluded) == (None, Exclusion.NO_STAGE)


@given(
    st.sets(st.text("abcdefxyz0123456789-", min_size=1, max_size=21), max_size=40),
    st.lists(st.integers(1, BUCKETS), min_size=1, max_size=5),
    st.randoms(),
)
def test_stages_are_the_same_for_the_same_devices_and_are_what_the_devices_compute(
    names: set[str], shares: list[int], random: Any
) -> None:
    stages = tuple(StagePlan(basis_points=share) for share in sorted(shares))
    found = place(plan(*stages), terms(), SHA, [device(name) for name in sorted(names)])
    shuffled = sorted(names)
    random.shuffle(shuffled)
    again = {one.device: one for one in place(plan(*stages), terms(), SHA, [device(n) for n in shuffled])}
    for one in found:
        assert again[one.device] == one
        where = bucket("0" * 16, one.device)
        smaller = [share for share in sorted(shares) if share <= where]
        assert one.bucket == where
        assert one.stage == (None if len(smaller) == len(shares) else len(smaller))
    stage_counts, excluded, _ = tally(found)
    assert sum(stage_counts.values()) + sum(excluded.values()) == len(names)


def test_one_percent_of_twenty_thousand_is_about_two_hundred() -> None:
    fleet = [device(f"dev-{number}") for number in range(20_000)]
    (found, *_) = tally(place(plan(StagePlan(basis_points=100), StagePlan()), terms(), SHA, fleet))
    assert 150 < found[0] < 250
