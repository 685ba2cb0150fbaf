"""Files of health text: what jtop left beside tegrastats, and the count of what is neither."""

import io
from pathlib import Path

from edge_runtime.health.health_log import HealthLog, Line, read_lines
from edge_runtime.health.tegrastats import MAX_LINE


def read(text: str) -> tuple[HealthLog, list[Line]]:
    log = HealthLog()
    return log, list(log.lines(io.StringIO(text)))


def read_shared(shared_data: Path, name: str) -> tuple[HealthLog, list[Line]]:
    return read((shared_data / "jetson" / name).read_text(encoding="utf-8"))


def test_no_file_of_jtop_is_forgotten(shared_data: Path) -> None:
    names = {path.name for path in (shared_data / "jetson").iterdir() if path.suffix in (".txt", ".csv")}
    assert names == {
        "jtop_journal_agx_orin_jp5_zone_map.txt",
        "jtop_stats_agx_xavier_2020.csv",
        "thermal_zones_nano2gb_jp4.txt",
    }


def test_the_journal_of_an_orin_names_its_zones_and_rails(shared_data: Path) -> None:
    log, lines = read_shared(shared_data, "jtop_journal_agx_orin_jp5_zone_map.txt")
    zones = {line.record["zone"]: line.record["name"] for line in lines if line.kind == "thermal_zone"}
    assert zones == {
        0: "CPU", 9: "Tdiode", 7: "SOC2", 5: "SOC0", 3: "CV1", 1: "GPU", 8: "tj", 6: "SOC1", 4: "CV2",
    }  # fmt: skip
    skipped, alarms = (line.record for line in lines if line.kind == "power_rail")
    assert skipped["name"] == "NC"
    assert skipped["skipped"] == "/sys/bus/i2c/devices/1-0041/hwmon/hwmon2/in1_label"
    assert (alarms["name"], alarms["alarms"]) == ("VDDQ_VDD2_1V8AO", {"crit_alarm": 0, "max_alarm": 0})
    assert alarms["unknown"] == {"skipped": "not skipped"}
    assert log.refusals.total() == 0


def test_a_list_of_zones(shared_data: Path) -> None:
    log, lines = read_shared(shared_data, "thermal_zones_nano2gb_jp4.txt")
    assert [(line.record["zone"], line.record["name"]) for line in lines] == [
        (0, "AO-therm"),
        (1, "CPU-therm"),
        (2, "GPU-therm"),
        (3, "PLL-therm"),
        (4, "PMIC-Die"),
        (5, "thermal-fan-est"),
    ]
    assert log.kinds == {"thermal_zone": 6}


def test_every_value_of_the_csv_is_read(shared_data: Path) -> None:
    text = (shared_data / "jetson/jtop_stats_agx_xavier_2020.csv").read_text(encoding="utf-8")
    log, lines = read(text)
    values = {name: value for line in lines for name, value in line.record["values"].items()}
    for row in text.splitlines()[1:]:
        name, _, value = row.partition(", ")
        if value == "OFF" and name != "jetson_clocks":
            assert values[name] is None
        elif value.replace(".", "", 1).isdigit():
            assert values[name] == float(value)
        else:
            assert values[name] == value
    assert len(values) == len(text.splitlines()) - 1
    assert [line.record["unknown"] for line in lines if "NVENC" in line.record["values"]] == [
        {"values.NVENC": "off"}
    ]
    assert log.refusals.total() == 0


def test_zones_as_grep_prints_them() -> None:
    log, lines = read(
        "/sys/class/thermal/thermal_zone10/type:tj-thermal\n/sys/class/thermal/thermal_zone10/temp:53968\n"
        "/sys/class/thermal/thermal_zone3/temp:-256000\nthermal_zone4/temp:what\n"
    )
    assert [(line.record["zone"], line.record["name"], line.record["celsius"]) for line in lines] == [
        (10, "tj-thermal", None),
        (10, None, 53.968),
        (3, None, None),
        (4, None, None),
    ]
    assert "powered off" in lines[2].record["unknown"]["celsius"]
    assert log.kinds == {"thermal_zone": 4}


def test_pairs_without_a_heading_begin_with_the_time() -> None:
    log, lines = read("GPU, 5\ntime, 2020-09-03 10:28:30.003209\nGPU, 5\nTemp GPU, 46.0\n")
    assert log.kinds == {"refused": 1, "values": 3}
    assert [line.record["values"] for line in lines[2:]] == [{"GPU": 5}, {"Temp GPU": 46.0}]


def test_a_recording_in_columns() -> None:
    log, lines = read(
        "time,uptime,CPU1,Temp GPU,Power TOT,nvp model\n2024-01-02 03:04:05.678,1:02:03,12,-256,4859,MAXN\na,b\n"
    )
    assert lines[1].record["values"] == {
        "time": "2024-01-02 03:04:05.678",
        "uptime": "1:02:03",
        "CPU1": 12,
        "Temp GPU": None,
        "Power TOT": 4859,
        "nvp model": "MAXN",
    }
    assert "powered off" in lines[1].record["unknown"]["values.Temp GPU"]
    assert log.kinds == {"values": 2, "refused": 1}


def test_lines_are_numbered_and_refusals_counted() -> None:
    log, lines = read("$ tegrastats\n\nRAM 1/2MB CPU [0%]\nhello, world\n\n")
    assert [(line.number, line.kind) for line in lines] == [(1, "refused"), (3, "tegrastats"), (4, "refused")]
    assert log.kinds["blank"] == 2
    assert log.refusals.total() == 2


def test_a_line_without_end_is_refused_in_pieces_that_do_not_grow() -> None:
    stream = io.StringIO("x" * (50 * MAX_LINE) + "\nRAM 1/2MB CPU [0%]\n")
    pieces = list(read_lines(stream))
    assert len(pieces) == 2
    assert len(pieces[0]) == 2 * MAX_LINE
    log = HealthLog()
    assert [line.kind for line in log.lines(pieces)] == ["refused", "tegrastats"]
