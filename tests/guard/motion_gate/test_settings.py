"""Settings: everything as documented is taken, anything else is refused with the place that is wrong."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.guard.motion_gate.settings import (
    LARGEST_SETTINGS,
    DatagramStop,
    DescriptorStop,
    FileStop,
    Settings,
    ToDatagrams,
    ToPrograms,
    parse,
    read,
)
from tests.rigs.motion_gate import KEY as LEAD
from tests.rigs.motion_gate import axis, profile, public_hex, settings

MS = 1_000_000


def parsed(folder: Path, **given: Any) -> Settings:
    return parse(json.dumps(settings(folder, **given)).encode())


def test_settings_as_documented(tmp_path: Path) -> None:
    found = parsed(
        tmp_path,
        estop=[
            {"kind": "file", "path": "/sys/class/gpio/gpio7/value"},
            {"kind": "fd", "fd": 3},
            {"kind": "datagram", "path": "/run/edge/estop.sock", "fresh_ms": 100},
        ],
        real_time=True,
    )
    assert found.device == "cart-7"
    assert found.listen == tmp_path / "motion.sock"
    assert found.output == ToDatagrams(tmp_path / "drive.sock")
    assert found.stops == (
        FileStop(Path("/sys/class/gpio/gpio7/value")),
        DescriptorStop(3),
        DatagramStop(Path("/run/edge/estop.sock"), 100 * MS),
    )
    assert found.real_time
    assert found.approvers is not None
    assert found.approvers.used == tmp_path / "used"
    assert found.approvers.keys == {"lead": public_hex(LEAD)}
    assert found.approvers.answer_ns == 30_000 * MS
    cart = found.profile
    assert cart.axes == {"v_m_s": 0.0, "w_rad_s": 0.0, "tip_deg": 0.0}
    assert cart.actions == {"drive": {"v_m_s", "w_rad_s"}, "tip": {"tip_deg"}}
    assert cart.risky == {"tip"}
    assert [table.name for table in cart.tables] == ["normal", "degraded"]
    limits = cart.tables[0].axes["v_m_s"]
    assert (limits.low, limits.high, limits.rise_per_s, limits.window_rise) == (-0.5, 1.0, 1e6, 1e6)
    assert (limits.step_ns, limits.window_ns) == (100 * MS, 200 * MS)
    assert (cart.longest_ttl_ns, cart.most_per_s) == (200 * MS, 1000)
    assert (cart.refusals, cart.refusals_ns) == (5, 1000 * MS)
    assert cart.states == {"NOMINAL", "DEGRADED"}
    assert cart.longest_approval_ns == 600_000 * MS


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ({"kind": "udp", "host": "127.0.0.1", "port": 9000}, ToDatagrams(("127.0.0.1", 9000))),
        ({"kind": "udp", "host": "::1", "port": 1}, ToDatagrams(("::1", 1))),
        ({"kind": "unix", "path": "/run/drive"}, ToDatagrams(Path("/run/drive"))),
        (
            {"kind": "exec", "command": ["/bin/go", "x"], "safe": ["/bin/stop"], "limit_ms": 500},
            ToPrograms(("/bin/go", "x"), ("/bin/stop",), 500 * MS),
        ),
    ],
)
def test_outputs(tmp_path: Path, output: dict[str, Any], found: object) -> None:
    assert parsed(tmp_path, output=output).output == found


def test_nobody_has_to_approve_where_nothing_is_risky(tmp_path: Path) -> None:
    assert parsed(tmp_path, approvals=None, profile=profile(risky=[])).approvers is None


TABLE = profile()["tables"][0]
FREE = [{"name": "free", "actions": ["a0"], "axes": {"v_m_s": axis()}}]
KEY = "00" * 32


def with_axis(**change: Any) -> dict[str, Any]:
    return {"profile": profile(tables=[TABLE | {"axes": TABLE["axes"] | {"v_m_s": axis() | change}}])}


def approvals(**change: Any) -> dict[str, Any]:
    return {"approvals": {"keys": {"a": KEY}, "used": "/var/lib/used", "answer_within_ms": 1000} | change}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"device": ""}, "settings.device"),
        ({"device": 1}, "settings.device"),
        ({"device": "a\nb"}, "settings.device"),
        ({"device": "d" * 129}, "settings.device"),
        ({"listen": "motion.sock"}, "settings.listen"),
        ({"listen": "/" + "x" * 107}, "settings.listen"),
        ({"real_time": 1}, "settings.real_time"),
        ({"more": 1}, "settings.more: no such setting"),
        ({"profile": []}, "profile: not an object"),
        ({"estop": {}}, "settings.estop"),
        ({"estop": [{"kind": "fd", "fd": 3}] * 5}, "settings.estop"),
        ({"estop": [{"kind": "gpio"}]}, "estop[0].kind: 'gpio' is none of"),
        ({"estop": [{"kind": "fd", "fd": 2}]}, "estop[0].fd"),
        ({"estop": [{"kind": "fd", "fd": 3, "x": 1}]}, "estop[0].x"),
        ({"estop": [{"kind": "file", "path": ""}]}, "estop[0].path"),
        ({"estop": [{"kind": "datagram", "path": "/a", "fresh_ms": 19}]}, "estop[0].fresh_ms"),
        ({"estop": [{"kind": "datagram", "path": "a", "fresh_ms": 20}]}, "estop[0].path"),
        ({"output": {"kind": "can"}}, "output.kind: 'can' is none of"),
        ({"output": {"kind": "k" * 16}}, "output.kind: 'kkkkkkkkkkkkkkkk' is none of udp, unix and exec"),
        ({"output": {"kind": "k" * 17}}, "output.kind: not a text of 1 to 16"),
        ({"estop": [{"kind": "k" * 17}]}, "estop[0].kind: not a text of 1 to 16"),
        ({"output": {"kind": "udp", "host": "1" * 64, "port": 1}}, "output.host: not a numeric address"),
        ({"output": {"kind": "udp", "host": "1" * 65, "port": 1}}, "output.host: not a text of 1 to 64"),
        ({"listen": "/" + "x" * 1023}, "settings.listen: not an absolute path of at most 107 bytes"),
        ({"listen": "/" + "x" * 1024}, "settings.listen: not a text of 1 to 1024"),
        (approvals(keys={"a": "X" * 64}), "approvals.keys.a: not a public key"),
        (
            {"profile": profile(tables=[TABLE | {"axes": {"v_m_s": axis()}}])},
            "profile.tables[0].axes: not exactly the axes of its actions: tip_deg, v_m_s, w_rad_s",
        ),
        ({"output": {"kind": "udp", "host": "drive.local", "port": 1}}, "output.host: not a numeric address"),
        ({"output": {"kind": "udp", "host": "127.0.0.1", "port": 0}}, "output.port"),
        ({"output": {"kind": "udp", "host": "127.0.0.1", "port": 65536}}, "output.port"),
        ({"output": {"kind": "udp", "host": "127.0.0.1", "port": 1, "x": 1}}, "output.x"),
        ({"output": {"kind": "unix", "path": "/a", "x": 1}}, "output.x"),
        (
            {"output": {"kind": "exec", "command": [], "safe": ["/b"], "limit_ms": 1}},
            "output: command and safe",
        ),
        (
            {"output": {"kind": "exec", "command": ["/b"], "safe": [], "limit_ms": 1}},
            "output: command and safe",
        ),
        ({"output": {"kind": "exec", "command": [1], "safe": ["/b"], "limit_ms": 1}}, "output.command"),
        ({"output": {"kind": "exec", "command": ["a\0"], "safe": ["/b"], "limit_ms": 1}}, "output.command"),
        ({"output": {"kind": "exec", "command": "/b", "safe": ["/b"], "limit_ms": 1}}, "output.command"),
        ({"output": {"kind": "exec", "command": ["/b"], "safe": ["/b"], "limit_ms": 0}}, "output.limit_ms"),
        ({"approvals": None}, "approvals: null, but the profile has risky actions"),
        (approvals(keys={}), "approvals.keys"),
        (approvals(keys={"a": "00" * 31}), "approvals.keys.a"),
        (approvals(keys={"a": "zz" * 32}), "approvals.keys.a"),
        (approvals(keys={"a": "AA" * 32}), "approvals.keys.a"),
        (approvals(keys={"a": 1}), "approvals.keys.a"),
        (approvals(keys={"": KEY}), "approvals.keys: a name"),
        (approvals(keys={"k" * 65: KEY}), "approvals.keys: a name"),
        (approvals(keys={"a\n": KEY}), "approvals.keys: a name"),
        (approvals(keys=[KEY]), "approvals.keys: not an object"),
        (approvals(answer_within_ms=99), "approvals.answer_within_ms"),
        (approvals(x=1), "approvals.x"),
        ({"profile": profile(x=1)}, "profile.x"),
        ({"profile": profile(axes={})}, "profile.axes"),
        ({"profile": profile(axes={f"a{at}": 0 for at in range(17)})}, "profile.axes"),
        ({"profile": profile(axes={"v": "0"})}, "profile.axes.v: not a finite number"),
        ({"profile": profile(actions={"drive": ["x"]})}, "profile.actions.drive"),
        ({"profile": profile(actions={"drive": []})}, "profile.actions.drive"),
        ({"profile": profile(actions={"drive": "v_m_s"})}, "profile.actions.drive"),
        ({"profile": profile(actions={"drive": [1]})}, "profile.actions.drive"),
        ({"profile": profile(risky=["fly"])}, "profile.risky: names actions"),
        ({"profile": profile(risky="tip")}, "profile.risky: not a list"),
        (
            {"profile": profile(tables=[TABLE | {"actions": "tip"}])},
            "profile.tables[0].actions: not a list",
        ),
        ({"profile": profile(tables=[])}, "profile.tables"),
        ({"profile": profile(tables=[TABLE] * 9)}, "profile.tables"),
        ({"profile": profile(tables=[TABLE | {"name": "n" * 16}])}, "profile.tables[0].name"),
        ({"profile": profile(tables=[TABLE | {"actions": ["fly"]}])}, "profile.tables[0].actions"),
        (
            {"profile": profile(tables=[TABLE | {"actions": ["drive"]}])},
            "profile.tables[0].axes: not exactly",
        ),
        (
            {"profile": profile(tables=[TABLE | {"axes": {"v_m_s": axis()}}])},
            "profile.tables[0].axes: not exactly",
        ),
        ({"profile": profile(tables=[TABLE | {"x": 1}])}, "profile.tables[0].x"),
        ({"profile": profile(states="NOMINAL")}, "profile.states"),
        ({"profile": profile(longest_ttl_ms=0)}, "profile.longest_ttl_ms"),
        ({"profile": profile(longest_ttl_ms=60_001)}, "profile.longest_ttl_ms"),
        ({"profile": profile(most_per_s=1001)}, "profile.most_per_s"),
        ({"profile": profile(most_per_s=0)}, "profile.most_per_s"),
        ({"profile": profile(refusals=0)}, "profile.refusals"),
        ({"profile": profile(refusals_ms=0)}, "profile.refusals_ms"),
        ({"profile": profile(longest_approval_ms=999)}, "profile.longest_approval_ms"),
        (with_axis(low=0.1), "profile.tables[0].axes.v_m_s: its safe value 0 is out of its range"),
        (with_axis(high=-0.1), "profile.tables[0].axes.v_m_s: its safe value 0 is out of its range"),
        (with_axis(rise_per_s=-1), "profile.tables[0].axes.v_m_s: rise_per_s"),
        (with_axis(window_rise=-1), "profile.tables[0].axes.v_m_s: rise_per_s"),
        (with_axis(step_ms=0), "profile.tables[0].axes.v_m_s.step_ms"),
        (with_axis(window_ms=1001), "profile.tables[0].axes.v_m_s.window_ms"),
        (with_axis(high=None), "profile.tables[0].axes.v_m_s.high"),
        (with_axis(x=1), "profile.tables[0].axes.v_m_s.x"),
    ],
)
def test_what_cannot_be_used_names_its_place(tmp_path: Path, change: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(tmp_path, **change)
    assert str(caught.value).startswith(place)
    assert "\n" not in str(caught.value)


UDP = {"kind": "udp", "host": "127.0.0.1"}
EXEC = {"kind": "exec", "command": ["/bin/go"], "safe": ["/bin/stop"]}


@pytest.mark.parametrize(
    ("key", "least", "most", "change"),
    [
        ("longest_ttl_ms", 1, 60_000, lambda to: {"profile": profile(longest_ttl_ms=to)}),
        ("most_per_s", 1, 1000, lambda to: {"profile": profile(most_per_s=to)}),
        ("refusals", 1, 1000, lambda to: {"profile": profile(refusals=to)}),
        ("refusals_ms", 1, 60_000, lambda to: {"profile": profile(refusals_ms=to)}),
        ("longest_approval_ms", 1000, 86_400_000, lambda to: {"profile": profile(longest_approval_ms=to)}),
        ("step_ms", 1, 1000, lambda to: with_axis(step_ms=to)),
        ("window_ms", 1, 1000, lambda to: with_axis(window_ms=to)),
        ("port", 1, 65_535, lambda to: {"output": UDP | {"port": to}}),
        ("limit_ms", 1, 60_000, lambda to: {"output": EXEC | {"limit_ms": to}}),
        ("fd", 3, 1 << 20, lambda to: {"estop": [{"kind": "fd", "fd": to}]}),
        (
            "fresh_ms",
            20,
            60_000,
            lambda to: {"estop": [{"kind": "datagram", "path": "/run/stop", "fresh_ms": to}]},
        ),
        ("answer_within_ms", 100, 60_000, lambda to: approvals(answer_within_ms=to)),
    ],
)
def test_both_ends_of_a_range_are_in_it_and_nothing_beyond(
    tmp_path: Path, key: str, least: int, most: int, change: Callable[[int], dict[str, Any]]
) -> None:
    for inside in (least, most):
        parsed(tmp_path, **change(inside))
    for outside in (least - 1, most + 1):
        with pytest.raises(ConfigError, match=rf"\.{key}: not a whole number from {least} to {most}$"):
            parsed(tmp_path, **change(outside))


@pytest.mark.parametrize(
    ("fits", "is_too_much", "place"),
    [
        ({"device": "d" * 128}, {"device": "d" * 129}, "settings.device"),
        ({"listen": "/" + "x" * 106}, {"listen": "/" + "x" * 107}, "settings.listen"),
        (
            {"estop": [{"kind": "file", "path": "/s"}] * 4},
            {"estop": [{"kind": "file", "path": "/s"}] * 5},
            "settings.estop: not a list of at most 4",
        ),
        (
            {"estop": [{"kind": "file", "path": "p" * 1024}]},
            {"estop": [{"kind": "file", "path": "p" * 1025}]},
            "estop[0].path",
        ),
        (
            {"profile": profile(actions={f"a{at}": ["v_m_s"] for at in range(64)}, risky=[], tables=FREE)},
            {"profile": profile(actions={f"a{at}": ["v_m_s"] for at in range(65)}, risky=[], tables=FREE)},
            "profile.actions: not 1 to 64 entries",
        ),
        (
            {"profile": profile(tables=[TABLE] * 8)},
            {"profile": profile(tables=[TABLE] * 9)},
            "profile.tables: not a list of at most 8",
        ),
        (
            {"profile": profile(tables=[TABLE | {"name": "n" * 15}])},
            {"profile": profile(tables=[TABLE | {"name": "n" * 16}])},
            "profile.tables[0].name",
        ),
        (
            {"output": EXEC | {"limit_ms": 1, "command": ["x"] * 64}},
            {"output": EXEC | {"limit_ms": 1, "command": ["x"] * 65}},
            "output.command",
        ),
        (
            {"output": EXEC | {"limit_ms": 1, "safe": ["x"] * 64}},
            {"output": EXEC | {"limit_ms": 1, "safe": ["x"] * 65}},
            "output.safe",
        ),
        (
            approvals(keys={f"k{at}": KEY for at in range(16)}),
            approvals(keys={f"k{at}": KEY for at in range(17)}),
            "approvals.keys: not 1 to 16 entries",
        ),
        (approvals(used="u" * 1024), approvals(used="u" * 1025), "approvals.used"),
        (
            with_axis(rise_per_s=0, window_rise=0),
            with_axis(rise_per_s=-0.1, window_rise=0),
            "profile.tables[0].axes.v_m_s: rise_per_s and window_rise are not negative",
        ),
        (
            with_axis(low=-1, high=0),
            with_axis(low=-1, high=-0.1),
            "profile.tables[0].axes.v_m_s: its safe value 0 is out of its range",
        ),
    ],
)
def test_as_much_as_fits_is_taken(
    tmp_path: Path, fits: dict[str, Any], is_too_much: dict[str, Any], place: str
) -> None:
    parsed(tmp_path, **fits)
    with pytest.raises(ConfigError) as caught:
        parsed(tmp_path, **is_too_much)
    assert str(caught.value).startswith(place)


def test_an_action_may_need_every_axis_and_every_action_may_be_risky(tmp_path: Path) -> None:
    axes = {"v_m_s": axis()}
    only = profile(
        axes={"v_m_s": 0.0},
        actions={"drive": ["v_m_s"]},
        risky=["drive"],
        tables=[{"name": "normal", "actions": ["drive"], "axes": axes}],
    )
    found = parsed(tmp_path, profile=only).profile
    assert found.risky == found.actions.keys() == found.tables[0].actions == {"drive"}


@pytest.mark.parametrize("key", ["device", "listen", "profile", "output", "estop", "approvals", "real_time"])
def test_nothing_is_guessed(tmp_path: Path, key: str) -> None:
    told = settings(tmp_path)
    del told[key]
    with pytest.raises(ConfigError, match=rf"settings\.{key}: missing"):
        parse(json.dumps(told).encode())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not an object"),
        (b"{}".ljust(LARGEST_SETTINGS + 1), "longer than 65536 bytes"),
        (b'{"device":"a","device":"b"}', "a key twice"),
    ],
)
def test_bytes_that_are_no_settings(data: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse(data)


def test_they_are_read_from_a_descriptor_which_is_closed(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, json.dumps(settings(tmp_path)).encode())
    os.close(writing)
    assert read(reading).device == "cart-7"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(reading)
    with pytest.raises(ConfigError, match="descriptor 999: the settings cannot be read: Bad file descriptor"):
        read(999)
