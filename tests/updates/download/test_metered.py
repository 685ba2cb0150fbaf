"""Which link costs by the byte."""

from pathlib import Path

import pytest

from edge_runtime.updates.download import default_route_interface, is_metered

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def routes(folder: Path, ipv4: str = "", ipv6: str | None = None) -> Path:
    (folder / "route").write_text(HEAD + ipv4)
    if ipv6 is not None:
        (folder / "ipv6_route").write_text(ipv6)
    return folder


def ipv4(interface: str, metric: int, destination: str = "00000000", mask: str = "00000000") -> str:
    return f"{interface}\t{destination}\t0100000A\t0003\t0\t0\t{metric}\t{mask}\t0\t0\t0\n"


def ipv6(interface: str, metric: int, flags: int = 0x3, prefix: str = "00") -> str:
    zeros = "0" * 32
    return (
        f"{zeros} {prefix} {zeros} 00 {'f' * 32} {metric:08x} 00000001 00000000 {flags:08x} {interface:>8}\n"
    )


def test_the_route_with_the_lowest_metric(tmp_path: Path) -> None:
    table = ipv4("wwan0", 700) + ipv4("eth0", 100) + ipv4("eth0", 0, "0000000A", "00FFFFFF")
    assert default_route_interface(routes(tmp_path, table)) == "eth0"


def test_ipv6_where_ipv4_has_no_way_out(tmp_path: Path) -> None:
    table = ipv6("lo", 0) + ipv6("eth1", 1, flags=0x0201) + ipv6("wwan0", 1024) + ipv6("ppp0", 2048)
    assert default_route_interface(routes(tmp_path, "", table)) == "wwan0"


def test_no_way_out_costs_nothing(tmp_path: Path) -> None:
    assert default_route_interface(routes(tmp_path)) is None
    assert default_route_interface(tmp_path / "absent") is None
    assert not is_metered(["*"], None)


@pytest.mark.parametrize(
    ("patterns", "interface", "metered"),
    [
        (("wwan*", "ppp*"), "wwan0", True),
        (("wwan*", "ppp*"), "ppp1", True),
        (("wwan*", "ppp*"), "eth0", False),
        ((), "wwan0", False),
    ],
)
def test_by_name(patterns: tuple[str, ...], interface: str, metered: bool) -> None:
    assert is_metered(patterns, interface) is metered


def test_this_machine_can_be_asked() -> None:
    found = default_route_interface()
    assert found is None or found
