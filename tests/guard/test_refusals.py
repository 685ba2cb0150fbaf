"""What makes a profile unsafe: one sentence per fault, and nothing to say of a safe one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.guard.conditions import TRAITS, Condition
from edge_runtime.guard.profile import EVERYTHING, from_json
from edge_runtime.guard.refusals import check
from edge_runtime.guard.severity import Optional, Severity
from tests.rigs.guard_bodies import CAMERA, CART, altered, profile_of


def test_safe_profiles_are_not_refused() -> None:
    assert check(profile_of()) == []
    assert check(profile_of(CAMERA)) == []


def cart(**changes: Any) -> list[str]:
    return check(profile_of(CART, **changes))


IGNORABLE = {
    "start_timeout",
    "repeated_trips",
    "repeated_latches",
    "stopped_too_long",
    "estop",
    "estop_disagrees",
    "motion_gate_mismatch",
    "motion_refusals",
    "unapproved_risk",
    "inference_late",
}


@pytest.mark.parametrize("condition", [c for c in Condition if c is not Condition.LATCH_UNKNOWN])
def test_only_optional_conditions_may_be_ignored(condition: Condition) -> None:
    optional = TRAITS[condition].optional
    sentence = f"conditions.{condition.value}: must not be ignored"
    on_cart = cart(conditions={condition.value: {"ignored": "it is in the way"}})
    on_wall = check(from_json(altered(CAMERA, {f"conditions.{condition.value}": {"ignored": "in the way"}})))
    needed = [fault for fault in on_wall if not fault.startswith("modes.watch: needs the camera")]
    if optional is Optional.MILDER_ON_STILL_BODY:
        assert on_cart[0] == sentence
        assert needed[0] == sentence
    elif optional is Optional.ON_STILL_BODY:
        assert condition.value in IGNORABLE
        assert on_cart[0] == f"{sentence} on a body that travels"
        assert needed == []
    else:
        assert not any(fault.startswith("conditions.") for fault in on_cart + on_wall)


@pytest.mark.parametrize(
    ("name", "rule", "weaker"),
    [
        ("worker_starved", {"severity": "warn"}, True),
        ("worker_starved", {"severity": "safe"}, False),
        ("worker_starved", {"trip_ms": 101}, True),
        ("worker_starved", {"trip_ms": 99}, False),
        ("worker_starved", {"clear_ms": 1_999}, True),
        ("worker_starved", {"clear_ms": 2_001}, False),
        ("worker_starved", {"then_ms": 3_001}, True),
        ("worker_starved", {"then_ms": 2_999}, False),
        ("worker_dead", {"severity": "stopped"}, True),
        ("worker_dead", {"severity": "lockout"}, False),
        ("worker_starved", {"worsens": False}, True),
        ("worker_starved", {"worsens": False, "severity": "safe"}, False),
        ("worker_starved", {"worsens": True}, False),
        ("worker_dead", {"worsens": False}, False),
    ],
)
def test_conditions_that_are_not_optional_may_only_become_stricter(
    name: str, rule: dict[str, Any], weaker: bool
) -> None:
    sentence = f"conditions.{name}: must not be milder or slower than in the catalogue on a body that travels"
    assert cart(conditions={name: rule}) == ([sentence] if weaker else [])
    assert check(from_json(altered(CAMERA, {f"conditions.{name}": rule}))) == []


_FOUND = ("start_timeout", "repeated_trips", "repeated_latches", "latch_unknown", "stopped_too_long")
NOTHING_LATCHES: dict[str, Any] = {
    **{f"conditions.{name}": {"ignored": "nothing latches"} for name in _FOUND},
    **{
        f"conditions.{rule.condition.value}": {"severity": "degraded", "worsens": False}
        for rule in profile_of(CAMERA).rules.values()
        if Severity.SAFE in (rule.severity, rule.then) or rule.severity is Severity.LOCKOUT
    },
}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"conditions.worker_dead": {"severity": "stopped"}}, None),
        ({"conditions.worker_dead": {"severity": "safe"}}, "worker_dead latches"),
        ({"conditions.soc_hot": {"severity": "lockout"}}, "soc_hot latches"),
        ({"conditions.worker_starved": {"severity": "warn"}}, "worker_starved latches"),
        ({"conditions.start_timeout": {}}, "start_timeout is not ignored"),
        ({"conditions.repeated_trips": {}}, "repeated_trips is not ignored"),
        ({"conditions.repeated_latches": {}}, "repeated_latches is not ignored"),
        ({"conditions.stopped_too_long": {}}, "stopped_too_long is not ignored"),
        ({"stopped": {"returns": False}}, "stopped.returns is false"),
    ],
)
def test_what_was_latched_may_be_forgotten_only_where_nothing_latches(
    change: dict[str, Any], why: str | None
) -> None:
    found = check(from_json(altered(CAMERA, NOTHING_LATCHES | change)))
    assert found == ([f"conditions.latch_unknown: must not be ignored while {why}"] if why else [])
    on_cart = check(from_json(altered(CART, NOTHING_LATCHES | change)))
    assert "conditions.latch_unknown: must not be ignored on a body that travels" in on_cart


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"conditions.worker_dead": {"severity": "warn"}},
            "worker_dead: must not be milder or slower than in the catalogue",
        ),
        (
            {"conditions.worker_starved": {"worsens": False}},
            "worker_starved: must not be milder or slower than in the catalogue",
        ),
        ({"conditions.repeated_trips": {"ignored": "it flaps"}}, "repeated_trips: must not be ignored"),
        ({"conditions.stopped_too_long": {"ignored": "it waits"}}, "stopped_too_long: must not be ignored"),
        ({"conditions.worker_dead": {"severity": "lockout"}}, None),
        ({"conditions.estop": {"ignored": "a cage does it"}}, None),
        ({"conditions.unapproved_risk": {"severity": "warn"}}, None),
    ],
)
def test_a_body_that_acts_without_travelling_is_no_still_one(
    change: dict[str, Any], sentence: str | None
) -> None:
    profile = from_json(altered(CAMERA, change))
    assert check(profile) == []
    assert check(profile, gated=True) == (
        [f"conditions.{sentence} on a body with a motion gate"] if sentence else []
    )


def test_what_may_be_ignored_on_a_still_body_may_be_milder_there_alone() -> None:
    assert cart(conditions={"motion_refusals": {"severity": "warn"}}) == [
        "conditions.motion_refusals: must not be milder or slower than in the catalogue on a body that travels"
    ]
    still = altered(CAMERA, {"conditions.motion_refusals": {"severity": "warn"}})
    assert check(from_json(still)) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"stopped": {"healthy_ms": 60_000}},
            "stopped.healthy_ms: must be shorter than stopped.longest_ms, which is 60000",
        ),
        ({"stopped": {"healthy_ms": 59_999}}, None),
        ({"settle_ms": 60_000}, "settle_ms: must be shorter than start_ms, which is 60000"),
        ({"settle_ms": 59_999}, None),
        ({"late_ms": 40}, "late_ms: must be shorter than lease_ms, which is 40"),
        ({"late_ms": 39}, None),
        ({"late_ms": 30, "paused_ms": 30}, "late_ms: must be shorter than paused_ms, which is 30"),
        ({"late_ms": 30, "paused_ms": 31}, None),
        ({"lease_ms": 51}, "stopping.t_gate_ms: must be at least the lease, which is 51"),
        ({"lease_ms": 50}, None),
    ],
)
def test_times_that_do_not_fit_together(changes: dict[str, Any], sentence: str | None) -> None:
    assert cart(**changes) == ([sentence] if sentence else [])


def test_the_stop_has_to_fit_into_what_is_free() -> None:
    # 1 m/s · (0.7 + 0.05 + 0.1) s + 1/2 m + 0.2 m
    assert cart(stopping__free_range_m=1.55) == []
    assert cart(stopping__free_range_m=1.54) == [
        "stopping: a stop takes 1.55 m, but only 1.54 m are free; lower v_max_m_s or the times, or see farther"
    ]


def test_without_a_real_time_schedule_detection_takes_three_times_as_long() -> None:
    profile = profile_of(stopping__free_range_m=2.94)
    assert check(profile) == []
    assert check(profile, realtime=False) == [
        (
            "stopping: a stop takes 2.95 m without a real-time schedule, but only 2.94 m are free; "
            "lower v_max_m_s or the times, or see farther"
        )
    ]
    assert check(profile_of(stopping__free_range_m=2.96), realtime=False) == []


def test_a_body_that_does_not_travel_needs_no_room() -> None:
    assert check(profile_of(CAMERA, lease_ms=60, stopping__margin_m=1), realtime=False) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        # 150 ms of age and 500 ms until dark counts
        (
            {"stopping__t_detect_ms": 649.9},
            "stopping.t_detect_ms: must be at least 650, after which a lost camera is noticed",
        ),
        ({"stopping__t_detect_ms": 650}, None),
        (
            {"conditions": {"source_stalled": {"trip_ms": 600}}},
            "stopping.t_detect_ms: must be at least 750, after which a lost camera is noticed",
        ),
        (
            {"freshness_ms__camera": 201},
            "stopping.t_detect_ms: must be at least 701, after which a lost camera is noticed",
        ),
    ],
)
def test_what_is_said_of_detection_has_to_be_possible(changes: dict[str, Any], sentence: str | None) -> None:
    assert cart(**changes) == ([sentence] if sentence else [])


def test_a_body_without_eyes_needs_no_time_to_notice_their_loss() -> None:
    blind: dict[str, Any] = {f"modes__{mode}__needs": [] for mode in ("drive", "slow", "crawl")}
    assert cart(stopping__t_detect_ms=1, modes__drive__fallbacks={}, freshness_ms={}, **blind) == []


def test_ignored_cameras_on_a_body_that_needs_them() -> None:
    names = ("source_stalled", "source_dark", "source_frozen", "source_late")
    faults = cart(conditions={name: {"ignored": "x"} for name in names})
    assert faults == [
        f"modes.{mode}: needs the camera, so {name} must be degraded or worse"
        for mode in ("drive", "slow", "crawl")
        for name in names
    ]


@pytest.mark.parametrize("need", ["camera", "pose", "map", "battery"])
def test_a_reading_that_is_relied_upon_has_a_bound_of_its_age(need: str) -> None:
    sentence = f"freshness_ms.{need}: must be more than 0; there is no reading that may be of any age"
    needs = {
        "modes__drive__needs": ["camera", "inference", "pose", need]
        if need != "camera" and need != "pose"
        else ["camera", "inference", "pose"]
    }
    bounds = {"camera": 150, "pose": 200, "map": 1, "battery": 1}
    assert cart(freshness_ms=bounds, **needs) == []
    for without in ({**bounds, need: 0}, {name: bound for name, bound in bounds.items() if name != need}):
        assert cart(freshness_ms=without, **needs) == [sentence]
    # zero is refused also of what nobody needs: it would mean "never too old" to whoever reads it
    assert check(profile_of(CAMERA, freshness_ms={**bounds, need: 0}))[-1:] == [sentence]


def test_needs_that_do_not_age_have_no_bound() -> None:
    assert cart(modes__drive__needs=["camera", "inference", "pose", "link", "temperature"]) == []


@pytest.mark.parametrize("condition", [c for c in Condition if c.mask & EVERYTHING])
def test_every_mode_evaluates_what_is_critical(condition: Condition) -> None:
    """Dropping one condition from the crawling mode: refused if it stops the body or is needed there."""
    traits = TRAITS[condition]
    faults = cart(modes__crawl__not_evaluated=[condition.value])
    critical = traits.severity >= Severity.STOPPED
    assert faults == ([f"modes.crawl: must evaluate {condition.value}"] if critical else [])


def test_a_mode_evaluates_what_it_needs() -> None:
    assert cart(modes__drive__not_evaluated=["pose_stale"]) == ["modes.drive: must evaluate pose_stale"]
    assert cart(modes__drive__not_evaluated=["link_lost"]) == []
    assert cart(
        modes__drive__not_evaluated=["link_lost"], conditions={"link_lost": {"severity": "stopped"}}
    ) == ["modes.drive: must evaluate link_lost"]
    ignored = {"link_lost": {"ignored": "there is none"}}
    assert cart(modes__drive__not_evaluated=["link_lost"], conditions=ignored) == []
    assert cart(conditions={"pose_stale": {"severity": "warn"}}) == [
        f"modes.{mode}: needs the pose, so pose_stale must be degraded or worse" for mode in ("drive", "slow")
    ]


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        (
            {"modes__drive__fallbacks": {"pose": "slow"}},
            ["modes.drive.fallbacks.pose: slow needs the pose too"],
        ),
        ({"modes__drive__fallbacks": {"pose": "fly"}}, ["modes.drive.fallbacks.pose: there is no mode fly"]),
        (
            {"modes__drive__fallbacks": {"pose": "crawl", "link": "crawl"}},
            ["modes.drive.fallbacks.link: drive does not need it"],
        ),
        ({"modes__drive__slower": "fly"}, ["modes.drive.slower: there is no mode fly"]),
        (
            {"modes__crawl__slower": "slow"},
            [
                "modes.crawl.slower: only the first mode has a slower one",
                "modes.crawl.slower: slow must not need more than crawl",
            ],
        ),
        ({"modes__slow__slower": "crawl"}, ["modes.slow.slower: only the first mode has a slower one"]),
        (
            {"modes__slow__needs": ["camera", "inference", "link"]},
            ["modes.drive.slower: slow must not need more than drive"],
        ),
        ({"modes__slow__needs": ["camera"]}, []),
        ({"modes__drive__slower": "drive"}, ["modes: the fallbacks of drive lead in a circle"]),
        (
            {
                "modes__crawl__fallbacks": {"camera": "blind"},
                "modes__blind": {"limits": "x", "needs": ["pose"], "fallbacks": {"pose": "crawl"}},
            },
            ["modes: the fallbacks of drive, crawl, blind lead in a circle"],
        ),
        (
            {"modes__crawl__fallbacks": {"camera": "blind"}, "modes__blind": {"limits": "x"}},
            [],
        ),
    ],
)
def test_fallbacks_lead_to_what_can_still_be_done(changes: dict[str, Any], sentences: list[str]) -> None:
    assert cart(**changes) == sentences


def test_a_body_may_stop_instead_of_being_slower() -> None:
    profile = profile_of(modes__drive={"limits": "full"})
    assert profile.start_mode.slower is None
    assert check(profile) == []


def test_faults_come_in_a_stable_order() -> None:
    faults = cart(
        conditions={"estop": {"ignored": "x"}},
        settle_ms=60_000,
        lease_ms=60,
        freshness_ms={"camera": 150},
        modes__drive__fallbacks={"pose": "drive"},
        modes__crawl__not_evaluated=["slot_damaged"],
    )
    assert [fault.partition(":")[0] for fault in faults] == [
        "conditions.estop", "settle_ms", "stopping.t_gate_ms", "freshness_ms.pose",
        "modes.crawl", "modes.drive.fallbacks.pose", "modes",
    ]  # fmt: skip


def test_the_profile_of_the_documentation_is_safe() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "safety.md").read_text(encoding="utf-8")
    (document,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert check(from_json(json.loads(document))) == []
