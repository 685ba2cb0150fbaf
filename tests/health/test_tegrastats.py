"""tegrastats of every L4T: every number of every real log is in the record, or named here as left out."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.health.reading import plain
from edge_runtime.health.tegrastats import MAX_LINE, NotTegrastats, parse_line

LINES = {
    "agx_orin64_idle_gpu_minus256.log": 1,
    "agx_orin64_jp6_30W_cores_off.log": 15,
    "agx_orin_l4t39.2_jp7.2.log": 1,
    "agx_xavier_jp4.log": 1,
    "nano_4gb_jp4_load.log": 114,
    "orin_nano_jp6_two.log": 2,
    "thor_l4t38.4_idle.log": 3,
    "thor_l4t39.2.log": 2,
    "tx2_jp4_first400.log": 400,
    "tx2_old_l4t28_pasted_terminal.log": 2,
    "xavier_nx_jp5_gpu_burn_38C_to_53C.log": 103,
}
"""How many lines of tegrastats each log holds, counted with `grep -c '^.*RAM '`."""


def numbers_of(text: str) -> Counter[float]:
    """Numbers of a line, found without any idea of its fields: digits that no letter or underscore touches.

    A name is a run of letters, digits and underscores that begins with a letter; `x`, units and signs are not
    names. The time before the fields is left out by the caller.
    """
    found: Counter[float] = Counter()
    position = 0
    while position < len(text):
        char = text[position]
        if char.isalpha() and not (char == "x" and text[position - 1].isdigit()):
            while position < len(text) and (text[position].isalnum() or text[position] == "_"):
                position += 1
        elif char.isdigit():
            start = position
            while position < len(text) and (text[position].isdigit() or text[position] == "."):
                position += 1
            negative = text[start - 1] == "-"
            found[-float(text[start:position]) if negative else float(text[start:position])] += 1
            while position < len(text) and text[position] in "kMGBmWC%":
                position += 1
        else:
            position += 1
    return found


def left_out(text: str) -> Counter[float]:
    """Numbers that a record must not show: the word for a powered-off sensor, and rails that do not exist."""
    words = text.split()
    found: Counter[float] = Counter()
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.endswith("@-256C"):
            found[-256.0] += 1
        if word == "NC":
            found.update(float(part.removesuffix("mW")) for part in following.split("/"))
    return found


def leaves(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, int | float):
        yield float(value)


def test_no_log_is_forgotten(shared_data: Path) -> None:
    assert {path.name for path in (shared_data / "jetson").glob("*.log")} == set(LINES)


@pytest.mark.parametrize("name", LINES)
def test_every_number_is_in_the_record_and_no_other(shared_data: Path, name: str) -> None:
    read = 0
    for line in (shared_data / "jetson" / name).read_text(encoding="utf-8").splitlines():
        try:
            record = plain(parse_line(line))
        except NotTegrastats:
            assert "RAM" not in line
            continue
        read += 1
        fields = line[line.index("RAM") :]
        assert record["ignored"] == []
        shown = {key: value for key, value in record.items() if key != "unknown"}
        assert Counter(leaves(shown)) == numbers_of(fields) - left_out(fields), line
        stamp = "".join(char for char in line[: line.index("RAM")] if char.isdigit())
        if stamp:
            month, day, year, clock = stamp[:2], stamp[2:4], stamp[4:8], stamp[8:]
            assert "".join(char for char in record["time"] if char.isdigit()) == year + month + day + clock
        else:
            assert record["time"] is None
    assert read == LINES[name]


@pytest.mark.parametrize("name", LINES)
def test_every_null_has_a_reason_and_every_reason_a_null(shared_data: Path, name: str) -> None:
    for line in (shared_data / "jetson" / name).read_text(encoding="utf-8").splitlines():
        try:
            record = plain(parse_line(line))
        except NotTegrastats:
            continue
        reasons = record.pop("unknown")
        assert set(nulls(record)) == set(reasons)
        assert all(reasons.values())


def nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from nulls(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from nulls(item, f"{path}.{index}")


def record(line: str) -> dict[str, Any]:
    return plain(parse_line(line))


def test_a_powered_off_gpu_has_no_temperature() -> None:
    seen = record("RAM 1/2MB (lfb 1x4MB) CPU [off] GPU@-256C tj@44.343C NC 0mW/0mW")
    assert seen["temperatures"]["GPU"]["celsius"] is None
    assert "powered off" in seen["unknown"]["temperatures.GPU.celsius"]
    assert seen["temperatures"]["tj"]["celsius"] == 44.343
    assert seen["power"]["NC"]["now_mw"] is None
    assert seen["cpus"] == [{"load_percent": None, "mhz": None}]
    assert seen["unknown"]["cpus.0.mhz"] == "off"


def test_a_rail_and_a_sensor_may_share_a_name() -> None:
    seen = record("RAM 14700/15692MB (lfb 3x2MB) CPU [0%@1190] GPU@30.5C GPU 463/464")
    assert seen["temperatures"]["GPU"]["celsius"] == 30.5
    assert seen["power"]["GPU"] == {"now_mw": 463, "average_mw": 464, "max_mw": None}


def test_the_second_temperature_and_the_third_power_are_maxima(shared_data: Path) -> None:
    first, second = (
        record(line) for line in (shared_data / "jetson/thor_l4t39.2.log").read_text().splitlines()
    )
    before, after = first["temperatures"]["cpu"], second["temperatures"]["cpu"]
    assert after["max_celsius"] == max(before["celsius"], after["celsius"])
    rails = first["power"]["VDD_CPU_SOC_MSS"], second["power"]["VDD_CPU_SOC_MSS"]
    assert rails[1]["max_mw"] == max(rail["now_mw"] for rail in rails)
    assert rails[1]["average_mw"] == math.ceil(sum(rail["now_mw"] for rail in rails) / 2)


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("GR3D_FREQ 39%@[305,0]", {"state": "on", "load_percent": 39, "clocks_mhz": [305, 0]}),
        ("GR3D_FREQ @[0,0,0]", {"state": "on", "load_percent": None, "clocks_mhz": [0, 0, 0]}),
        ("GR3D_FREQ 63%@[621]", {"state": "on", "load_percent": 63, "clocks_mhz": [621]}),
        ("GR3D_FREQ 0%@76", {"state": "on", "load_percent": 0, "clocks_mhz": [76]}),
        ("GR3D_FREQ 22%", {"state": "on", "load_percent": 22, "clocks_mhz": None}),
        ("GR3D 0%@998", {"state": "on", "load_percent": 0, "clocks_mhz": [998]}),
        ("GR3D_FREQ @0", {"state": "on", "load_percent": None, "clocks_mhz": [0]}),
        ("GR3D_FREQ off", {"state": "off", "load_percent": None, "clocks_mhz": None}),
        ("GR3D_FREQ 5%@-1", {"state": "on", "load_percent": 5, "clocks_mhz": [None]}),
    ],
)
def test_forms_of_the_gpu(text: str, engine: dict[str, Any]) -> None:
    assert record(f"RAM 1/2MB CPU [0%] {text} APE 25")["gpu"] == engine


def test_the_oldest_form() -> None:
    seen = record(
        "RAM 1094/3995MB (lfb 553x4MB) SWAP 0/0MB (cached 0MB) cpu [0%,5%,off,off]@1224 EMC 12%@408 AVP 10%@80 "
        "NVDEC 716 MSENC 192 VDE 0 GR3D 7%@76 EDP limit 1734 MTS fg 3% bg 1%"
    )
    assert [core["mhz"] for core in seen["cpus"]] == [1224, 1224, None, None]
    assert seen["emc"] == {"state": "on", "load_percent": 12, "clocks_mhz": [408]}
    assert set(seen["engines"]) == {"AVP", "NVDEC", "MSENC", "VDE"}
    assert seen["engines"]["MSENC"]["clocks_mhz"] == [192]
    assert seen["extras"] == {"EDP limit": 1734, "MTS fg": 3, "MTS bg": 1}
    assert seen["ignored"] == []


def test_a_name_printed_twice_is_kept_twice() -> None:
    seen = record("RAM 1/2MB CPU [0%] NC 0mW/0mW VDD 5mW/6mW NC 0mW/0mW VDD 7mW/8mW")
    assert list(seen["power"]) == ["NC", "VDD", "NC#2", "VDD#2"]


@pytest.mark.parametrize(
    "stamp", ["2026-07-25T09:08:28.125Z", "[2026-07-25 09:08:28,125]", "07-25-2026 09:08:28.125"]
)
def test_times_that_loggers_put_before_a_line(stamp: str) -> None:
    seen = record(f"{stamp} RAM 1/2MB CPU [0%@729]")
    assert seen["time"].startswith("2026-07-25T09:08:28.125")
    assert seen["ignored"] == []


@pytest.mark.parametrize("field", ["VDD_IN 5765mW", "VDD_IN 5765", "VDD_IN   5765mW"])
def test_power_without_an_average(field: str) -> None:
    seen = record(f"RAM 1/2MB CPU [0%] {field} APE 174")
    assert seen["power"] == {"VDD_IN": {"now_mw": 5765, "average_mw": None, "max_mw": None}}
    assert list(seen["engines"]) == ["APE"]


def test_spaces_degree_signs_and_a_second_gpu() -> None:
    seen = record(
        "RAM 4/8MB (lfb 1x2MB)    SWAP 1/2MB (cached 1MB)  CPU [1%@1344, 3%@1344, off]  EMC_FREQ  8%@3199 "
        "GR3D_FREQ 0%@114 GR3D2_FREQ 0%@115  NVENC      off   PVA0_FREQ  115 gpu@59.9°C tj@60°C/61°C VIN 1mW/2mW"
    )
    assert [core["mhz"] for core in seen["cpus"]] == [1344, 1344, None]
    assert seen["engines"]["GR3D2"]["clocks_mhz"] == [115]
    assert seen["engines"]["NVENC"]["state"] == "off"
    assert seen["temperatures"] == {
        "gpu": {"celsius": 59.9, "max_celsius": None},
        "tj": {"celsius": 60.0, "max_celsius": 61.0},
    }
    assert seen["power"]["VIN"]["average_mw"] == 2
    assert seen["ignored"] == []


@pytest.mark.parametrize(
    ("before", "after", "ignored"),
    [
        ("May 11 10:00:00 host tegrastats[123]: ", "", ["May", "11", "10:00:00", "host", "tegrastats[123]:"]),
        ("1683799200,", "", ["1683799200,"]),
        ("[1683799200.123] ", "", ["[1683799200.123]"]),
        ('"', '"', []),
        ("nvidia@board:~$ tegrastats ", "", ["nvidia@board:~$", "tegrastats"]),
    ],
)
def test_what_loggers_and_shells_put_around_a_line_is_no_field(
    before: str, after: str, ignored: list[str]
) -> None:
    seen = record(f"{before}RAM 3/4MB (lfb 1x4MB) CPU [5%@6] tj@40C{after}")
    assert seen["ignored"] == ignored
    assert seen["engines"] == {}
    assert seen["ram"]["total_mb"] == 4
    assert seen["temperatures"]["tj"]["celsius"] == 40.0


def test_units_are_those_of_the_fields() -> None:
    seen = record("RAM 1/2GB (lfb 8x512kB) SWAP 512/1024kB (cached 0kB) IRAM 0/252kB(lfb 252kB) CPU [1%]")
    assert seen["ram"] == {
        "used_mb": 1024,
        "total_mb": 2048,
        "free_blocks": 8,
        "free_block_size": 512,
        "free_block_unit": "kB",
    }
    assert seen["swap"]["used_mb"] == 0.5
    assert seen["iram"] == {"used_kb": 0, "total_kb": 252, "free_block_kb": 252}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        "nvidia@linux:~$ sudo /usr/bin/tegrastats",
        "[sudo] password for nvidia: ",
        "GPU@40C",
        "\0\0",
        "RAM",
        "é",
    ],
)
def test_what_is_no_line_of_tegrastats_is_refused_with_a_reason(line: str) -> None:
    with pytest.raises(NotTegrastats, match="line"):
        parse_line(line)


def test_an_endless_line_is_refused() -> None:
    with pytest.raises(NotTegrastats, match="characters"):
        parse_line("RAM 1/2MB CPU [0%] " + "x" * MAX_LINE)


def test_a_number_too_long_to_be_one_is_ignored() -> None:
    seen = record("RAM 1/2MB CPU [0%] VDD_IN " + "9" * 5000 + "/1 tj@" + "9" * 1000 + "C VDD_SOC 5/6")
    assert len(seen["ignored"]) == 3
    assert seen["power"]["VDD_SOC"]["now_mw"] == 5


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("tj@-256C", "temperatures.tj.celsius"),
        ("tj@255C", "temperatures.tj.celsius"),
        ("tj@-127C", "temperatures.tj.celsius"),
        ("VDD_IN -12mW/5mW", "power.VDD_IN.now_mw"),
        ("VIC_FREQ -3%@5", "engines.VIC.load_percent"),
    ],
)
def test_values_that_cannot_be_are_unknown(field: str, path: str) -> None:
    assert path in record(f"RAM 1/2MB CPU [0%] {field}")["unknown"]


REAL = (
    "11-15-2024 08:38:09 RAM 6185/7620MB (lfb 8x2MB) SWAP 851/3810MB (cached 1MB) CPU [15%@729,off] EMC_FREQ "
    "43%@2133 GR3D_FREQ 63%@[621] NVDEC off APE 200 cpu@53.968C gpu@-256C VDD_IN 12479mW/12479mW VDD_SOC 1/2"
)


@given(
    st.lists(st.tuples(st.integers(0, len(REAL) - 1), st.characters()), max_size=12),
    st.integers(0, len(REAL)),
)
def test_a_damaged_line_is_read_or_refused_and_nothing_else(changes: list[tuple[int, str]], end: int) -> None:
    text = list(REAL)
    for place, char in changes:
        text[place] = char
    _read_or_refused("".join(text[:end]))


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    _read_or_refused(text)
    _read_or_refused("RAM 1/2MB " + text)


def _read_or_refused(text: str) -> None:
    try:
        seen = plain(parse_line(text))
    except NotTegrastats:
        return
    assert all(math.isfinite(number) for number in leaves(seen))
