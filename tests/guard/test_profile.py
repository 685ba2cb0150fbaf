"""What a profile may say, and the one sentence for each thing that it may not."""

from typing import Any

import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.guard.conditions import FROM_HISTORY, TRAITS, Condition, mask_of
from edge_runtime.guard.fallback import mode_without
from edge_runtime.guard.profile import EVERYTHING, NEVER_NS, Mode, ProfileError, Rule, Stopping, from_json
from edge_runtime.guard.severity import Need, Severity
from tests.rigs.guard_bodies import CAMERA, CART, MS, altered, profile_of

C, N = Condition, Need


def test_a_profile_has_the_catalogue_and_the_defaults_where_it_says_nothing() -> None:
    profile = profile_of()
    assert profile.name == "cart"
    assert profile.ignored == ()
    assert profile.counted == EVERYTHING
    assert not profile.counted & FROM_HISTORY
    for condition, traits in TRAITS.items():
        rule = profile.rule(condition)
        if condition.mask & FROM_HISTORY:
            assert rule is None
            continue
        assert rule == Rule(
            condition,
            traits.severity,
            traits.trip_ms * MS,
            traits.clear_ms * MS,
            traits.then,
            traits.then_ms * MS,
            traits.aged,
            traits.takes,
        )
    assert profile.freshness_ns == ((N.CAMERA, 150 * MS), (N.POSE, 200 * MS), (N.BATTERY, 5_000 * MS))
    assert (profile.returns_from_stopped, profile.healthy_ns, profile.stopped_max_ns) == (
        True, 5_000 * MS, 60_000 * MS,
    )  # fmt: skip
    assert (profile.start_ns, profile.settle_ns) == (60_000 * MS, 1_000 * MS)
    assert (profile.late_ns, profile.paused_ns, profile.lease_ns) == (5 * MS, 100 * MS, 40 * MS)
    assert profile.limits == ("full", "half", "tenth")
    assert (profile.trips_max, profile.trips_window_ns) == (3, 60_000 * MS)
    assert (profile.latches_max, profile.latches_window_ns) == (3, 600_000 * MS)


def test_a_profile_has_what_it_says() -> None:
    profile = profile_of(
        stopped={"returns": False, "healthy_ms": 1, "longest_ms": 2},
        repeats={"trips": 4, "trips_window_ms": 3, "latches": 5, "latches_window_ms": 4},
        start_ms=5,
        settle_ms=6,
        late_ms=7,
        paused_ms=8,
        lease_ms=9,
        conditions={
            "link_lost": {"severity": "lockout", "trip_ms": 10, "clear_ms": 11},
            "pose_stale": {"then_ms": 12},
            "map_stale": {"ignored": "there is none"},
        },
    )
    assert (profile.returns_from_stopped, profile.healthy_ns, profile.stopped_max_ns) == (False, MS, 2 * MS)
    assert (profile.trips_max, profile.trips_window_ns) == (4, 3 * MS)
    assert (profile.latches_max, profile.latches_window_ns) == (5, 4 * MS)
    assert (profile.start_ns, profile.settle_ns) == (5 * MS, 6 * MS)
    assert (profile.late_ns, profile.paused_ns, profile.lease_ns) == (7 * MS, 8 * MS, 9 * MS)
    assert profile.rule(C.LINK_LOST) == Rule(
        C.LINK_LOST, Severity.LOCKOUT, 10 * MS, 11 * MS, None, 0, False, N.LINK
    )
    assert profile.rule(C.POSE_STALE) == Rule(
        C.POSE_STALE, Severity.DEGRADED, 500 * MS, 1_000 * MS, Severity.SAFE, 12 * MS, True, N.POSE
    )
    assert profile.rule(C.MAP_STALE) is None
    assert profile.ignored == ((C.MAP_STALE, "there is none"),)
    assert profile.counted == EVERYTHING & ~C.MAP_STALE.mask


def test_a_condition_that_is_as_bad_as_it_can_get_does_not_get_worse() -> None:
    rule = profile_of(conditions__pose_stale={"severity": "safe"}).rule(C.POSE_STALE)
    assert rule is not None
    assert (rule.then, rule.then_ns) == (None, 0)
    milder = profile_of(conditions__pose_stale={"severity": "stopped"}).rule(C.POSE_STALE)
    assert milder is not None
    assert milder.then is Severity.SAFE


def test_a_condition_may_be_kept_from_getting_worse() -> None:
    rule = profile_of(conditions__pose_stale={"worsens": False}).rule(C.POSE_STALE)
    assert rule is not None
    assert (rule.severity, rule.then, rule.then_ns) == (Severity.DEGRADED, None, 0)


def test_what_the_guard_finds_itself_may_be_ignored_and_then_its_time_never_comes() -> None:
    why = {"ignored": "nothing moves"}
    profile = profile_of(
        CAMERA,
        stopped__longest_ms=70_000,
        conditions__start_timeout=why,
        conditions__repeated_trips=why,
        conditions__repeated_latches=why,
        conditions__stopped_too_long=why,
    )
    assert (profile.start_ns, profile.stopped_max_ns) == (NEVER_NS, NEVER_NS)
    assert (profile.trips_window_ns, profile.latches_window_ns) == (0, 0)
    assert (C.STOPPED_TOO_LONG, "nothing moves") in profile.ignored
    assert profile.remembers
    assert not profile_of(CAMERA, conditions__latch_unknown=why).remembers
    # each of them alone
    only = profile_of(CAMERA, conditions__repeated_trips=why)
    assert (only.trips_window_ns, only.latches_window_ns) == (0, 600_000 * MS)
    assert (only.start_ns, only.stopped_max_ns) == (60_000 * MS, 60_000 * MS)


def test_masks_of_a_profile_follow_its_severities() -> None:
    profile = profile_of(CAMERA)
    assert profile.stopping_conditions == mask_of(
        rule.condition
        for rule in profile.rules.values()
        if rule.severity.name in ("STOPPED", "SAFE", "LOCKOUT")
    )
    assert profile.latching_conditions == mask_of(
        rule.condition for rule in profile.rules.values() if rule.severity.name in ("SAFE", "LOCKOUT")
    )
    assert [rule.condition for rule in profile.rules_taking(N.CAMERA)] == [
        C.SOURCE_STALLED, C.SOURCE_DARK, C.SOURCE_FROZEN, C.SOURCE_LATE,
    ]  # fmt: skip


def test_a_profile_need_not_bound_ages() -> None:
    assert profile_of(freshness_ms=None).freshness_ns == ()


def test_modes() -> None:
    profile = profile_of()
    assert profile.modes == (
        Mode("drive", "full", EVERYTHING, (N.CAMERA, N.INFERENCE, N.POSE), ((N.POSE, "crawl"),), "slow"),
        Mode("slow", "half", EVERYTHING, (N.CAMERA, N.INFERENCE, N.POSE), (), None),
        Mode("crawl", "tenth", EVERYTHING & ~C.POSE_STALE.mask, (N.CAMERA, N.INFERENCE), (), None),
    )
    assert profile.start_mode is profile.modes[0]
    assert profile.mode("crawl") is profile.modes[2]
    assert profile.mode("fly") is None
    assert profile.mode(None) is None


@pytest.mark.parametrize(
    ("lost", "degraded", "left"),
    [
        ((), False, "drive"),
        ((), True, "slow"),
        ((N.MAP,), True, "slow"),
        ((N.POSE,), True, "crawl"),
        ((N.POSE,), False, "crawl"),
        ((N.CAMERA,), True, None),
        ((N.POSE, N.CAMERA), True, None),
    ],
)
def test_the_mode_that_is_left(lost: tuple[Need, ...], degraded: bool, left: str | None) -> None:
    mode = mode_without(profile_of(), lost, degraded=degraded)
    assert (mode.name if mode else None) == left


def test_fallbacks_are_followed_to_their_end() -> None:
    profile = profile_of(
        modes__drive__needs=["map", "pose", "link"],
        modes__drive__fallbacks={"map": "a", "pose": "b"},
        modes__a={"limits": "a", "needs": ["pose"], "fallbacks": {"pose": "b"}},
        modes__b={"limits": "b", "needs": ["link"]},
    )
    names = {
        lost: mode.name if (mode := mode_without(profile, lost, degraded=True)) else None
        for lost in ((), (N.MAP,), (N.POSE,), (N.MAP, N.POSE), (N.MAP, N.POSE, N.LINK))
    }
    assert list(names.values()) == ["slow", "a", "b", "b", None]


def test_fallbacks_in_a_circle_end_in_none() -> None:
    profile = profile_of(
        modes__drive={"limits": "a", "needs": ["pose"], "fallbacks": {"pose": "b"}},
        modes__b={"limits": "b", "needs": ["pose"], "fallbacks": {"pose": "drive"}},
    )
    assert mode_without(profile, (N.POSE,), degraded=False) is None


def test_the_stopping_distance() -> None:
    stopping = Stopping(2.0, 0.5, 100.0, 50.0, 250.0, 0.25, 9.0)
    assert stopping.distance_m() == pytest.approx(2.0 * 0.4 + 4.0 + 0.25)
    assert stopping.distance_m(detect_factor=3.0) == pytest.approx(2.0 * 0.6 + 4.0 + 0.25)
    assert stopping.travels
    still = Stopping(0.0, 0.5, 100.0, 50.0, 250.0, 0.25, 9.0)
    assert still.distance_m() == 0.25
    assert not still.travels


NEEDS = "camera, inference, pose, map, link, battery, temperature"

FAULTS = [
    ({"name": None}, "profile.name: is missing"),
    ({"name": ""}, "profile.name: must be a text of 1 to 200 characters, not ''"),
    ({"name": "x" * 201}, f"profile.name: must be a text of 1 to 200 characters, not '{'x' * 40}'"),
    ({"name": 1}, "profile.name: must be a text of 1 to 200 characters, not 1"),
    ({"name": ["x"]}, "profile.name: must be a text of 1 to 200 characters, not a list"),
    ({"colour": 1}, "profile.colour: there is no such field"),
    ({"stopped": {"colour": 1}}, "profile.stopped.colour: there is no such field"),
    ({"repeats": {"colour": 1}}, "profile.repeats.colour: there is no such field"),
    ({"freshness_ms": {"colour": 1}}, "profile.freshness_ms.colour: there is no such field"),
    ({"stopping.colour": 1}, "profile.stopping.colour: there is no such field"),
    ({"modes.drive.colour": 1}, "profile.modes.drive.colour: there is no such field"),
    (
        {"modes.drive.fallbacks": {"colour": 1}},
        "profile.modes.drive.fallbacks.colour: there is no such field",
    ),
    ({"conditions": {"colour": {}}}, "profile.conditions.colour: there is no such field"),
    (
        {"conditions": {"start_timeout": {"severity": "warn"}}},
        "profile.conditions.start_timeout.severity: there is no such field",
    ),
    (
        {"conditions": {"soc_hot": {"worsens": 1}}},
        "profile.conditions.soc_hot.worsens: must be true or false, not 1",
    ),
    ({"conditions": {"estop": {"colour": 1}}}, "profile.conditions.estop.colour: there is no such field"),
    ({"conditions": {"estop": 1}}, "profile.conditions.estop: must be an object, not 1"),
    ({"conditions": {"estop": {"then_ms": 1}}}, "profile.conditions.estop.then_ms: there is no such field"),
    (
        {"conditions": {"estop": {"ignored": "x", "trip_ms": 1}}},
        "profile.conditions.estop.trip_ms: there is no such field",
    ),
    (
        {"conditions": {"estop": {"severity": "healthy"}}},
        "profile.conditions.estop.severity: must be one of warn, degraded, stopped, safe, lockout, not 'healthy'",
    ),
    (
        {"conditions": {"estop": {"severity": []}}},
        "profile.conditions.estop.severity: must be one of warn, degraded, stopped, safe, lockout, not a list",
    ),
    (
        {"conditions": {"estop": {"trip_ms": -1}}},
        "profile.conditions.estop.trip_ms: must be from 0 to 86400000, not -1",
    ),
    (
        {"conditions": {"pose_stale": {"then_ms": 0}}},
        "profile.conditions.pose_stale.then_ms: must be from 1 to 86400000, not 0",
    ),
    ({"modes": {}}, "profile.modes: must have 1 to 32 entries, not 0"),
    ({"modes": {f"m{n}": {} for n in range(33)}}, "profile.modes: must have 1 to 32 entries, not 33"),
    ({"modes": []}, "profile.modes: must be an object, not a list"),
    ({"modes": None}, "profile.modes: is missing"),
    ({"modes.drive.limits": None}, "profile.modes.drive.limits: is missing"),
    ({"modes.drive.slower": 1}, "profile.modes.drive.slower: must be a text of 1 to 200 characters, not 1"),
    ({"modes.drive.needs": "camera"}, "profile.modes.drive.needs: must be a list, not 'camera'"),
    (
        {"modes.drive.needs": ["camera", "luck"]},
        f"profile.modes.drive.needs: must hold only words of {NEEDS}, not 'luck'",
    ),
    (
        {"modes.drive.needs": [{}]},
        f"profile.modes.drive.needs: must hold only words of {NEEDS}, not an object",
    ),
    (
        {"modes.drive.needs": ["pose", "pose"]},
        "profile.modes.drive.needs: must hold each word once, not a list",
    ),
    ({"start_ms": 0}, "profile.start_ms: must be from 1 to 86400000, not 0"),
    ({"start_ms": 86_400_001}, "profile.start_ms: must be from 1 to 86400000, not 86400001"),
    ({"start_ms": 1.5}, "profile.start_ms: must be a whole number, not 1.5"),
    ({"start_ms": True}, "profile.start_ms: must be a whole number, not true"),
    ({"stopped": {"returns": 1}}, "profile.stopped.returns: must be true or false, not 1"),
    ({"stopped": {"healthy_ms": 0}}, "profile.stopped.healthy_ms: must be from 1 to 86400000, not 0"),
    ({"repeats": {"trips": 1}}, "profile.repeats.trips: must be from 2 to 16, not 1"),
    ({"repeats": {"trips": 17}}, "profile.repeats.trips: must be from 2 to 16, not 17"),
    ({"repeats": {"latches": 1}}, "profile.repeats.latches: must be from 2 to 16, not 1"),
    ({"repeats": {"latches": 17}}, "profile.repeats.latches: must be from 2 to 16, not 17"),
    ({"freshness_ms": {"pose": -1}}, "profile.freshness_ms.pose: must be from 0 to 86400000, not -1"),
    ({"stopping": None}, "profile.stopping: is missing"),
    ({"stopping.v_max_m_s": None}, "profile.stopping.v_max_m_s: is missing"),
    ({"stopping.v_max_m_s": "1"}, "profile.stopping.v_max_m_s: must be a number, not '1'"),
    ({"stopping.v_max_m_s": True}, "profile.stopping.v_max_m_s: must be a number, not true"),
    ({"stopping.v_max_m_s": float("nan")}, "profile.stopping.v_max_m_s: must be from 0 to 100, not nan"),
    ({"stopping.v_max_m_s": 10**400}, f"profile.stopping.v_max_m_s: must be from 0 to 100, not 1{'0' * 39}"),
    ({"stopping.v_max_m_s": -0.1}, "profile.stopping.v_max_m_s: must be from 0 to 100, not -0.1"),
    ({"stopping.v_max_m_s": 100.1}, "profile.stopping.v_max_m_s: must be from 0 to 100, not 100.1"),
    ({"stopping.a_brake_m_s2": 0}, "profile.stopping.a_brake_m_s2: must be from 0.01 to 100, not 0"),
    ({"stopping.a_brake_m_s2": 101}, "profile.stopping.a_brake_m_s2: must be from 0.01 to 100, not 101"),
    ({"stopping.t_detect_ms": -1}, "profile.stopping.t_detect_ms: must be from 0 to 60000, not -1"),
    ({"stopping.t_detect_ms": 60_001}, "profile.stopping.t_detect_ms: must be from 0 to 60000, not 60001"),
    ({"stopping.t_gate_ms": -1}, "profile.stopping.t_gate_ms: must be from 0 to 60000, not -1"),
    ({"stopping.t_gate_ms": 60_001}, "profile.stopping.t_gate_ms: must be from 0 to 60000, not 60001"),
    ({"stopping.t_act_ms": -1}, "profile.stopping.t_act_ms: must be from 0 to 60000, not -1"),
    ({"stopping.t_act_ms": 60_001}, "profile.stopping.t_act_ms: must be from 0 to 60000, not 60001"),
    ({"stopping.margin_m": -1}, "profile.stopping.margin_m: must be from 0 to 1000, not -1"),
    ({"stopping.margin_m": 1_001}, "profile.stopping.margin_m: must be from 0 to 1000, not 1001"),
    ({"stopping.free_range_m": -1}, "profile.stopping.free_range_m: must be from 0 to 10000, not -1"),
    ({"stopping.free_range_m": 10_001}, "profile.stopping.free_range_m: must be from 0 to 10000, not 10001"),
    ({"freshness_ms": {"pose": None}}, "profile.freshness_ms.pose: must be a whole number, not null"),
]


@pytest.mark.parametrize(("changes", "sentence"), FAULTS)
def test_a_fault_is_told_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    document = altered(CART, {path: value for path, value in changes.items() if value is not None})
    for path in (path for path, value in changes.items() if value is None):
        document = altered(document, {path: None})
    with pytest.raises(ProfileError) as caught:
        from_json(document)
    assert str(caught.value) == sentence
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize(
    ("document", "kind"),
    [(None, "null"), ([], "a list"), ("x", "'x'"), (1, "1"), (True, "true"), ({1: 2}, "an object")],
)
def test_what_is_no_object_is_no_profile(document: object, kind: str) -> None:
    with pytest.raises(ProfileError) as caught:
        from_json(document)
    assert str(caught.value) == f"profile: must be an object, not {kind}"


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("stopping.v_max_m_s", (0, 100)),
        ("stopping.a_brake_m_s2", (0.01, 100)),
        ("stopping.t_detect_ms", (0, 60_000)),
        ("stopping.t_gate_ms", (0, 60_000)),
        ("stopping.t_act_ms", (0, 60_000)),
        ("stopping.margin_m", (0, 1_000)),
        ("stopping.free_range_m", (0, 10_000)),
        ("start_ms", (1, 86_400_000)),
        ("repeats.trips", (2, 16)),
        ("repeats.latches", (2, 16)),
        ("name", ("x", "x" * 200)),
        ("modes", ({"m": {"limits": "x"}}, {f"m{n}": {"limits": "x"} for n in range(32)})),
    ],
)
def test_bounds_themselves_are_allowed(path: str, values: tuple[Any, ...]) -> None:
    for value in values:
        from_json(altered(CART, {path: value}))
    if path.startswith("stopping."):
        for value in values:
            profile = from_json(altered(CART, {path: value}))
            assert getattr(profile.stopping, path.partition(".")[2]) == value


def test_the_document_itself_is_left_as_it_was() -> None:
    before = altered(CART, {})
    from_json(CART)
    assert before == CART
