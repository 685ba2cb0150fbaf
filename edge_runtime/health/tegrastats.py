"""Text of NVIDIA's `tegrastats`, of every L4T from 24 to 39: one line is one record.

The text is a list of fields in no fixed order, and each release prints others:

- clocks `2%@1600`, `0%`, `@0`, `729`, `off`, `39%@[305,0]` (one per GPC), with or without `_FREQ` in the name;
- temperatures `GPU@30.5C`; from L4T 39 `cpu@34.3C/34.8C`, now and the highest so far;
- power `GPU 463/463` up to JetPack 4, `VDD_IN 5542mW/5555mW` after it, now and average; from L4T 39 a third, the
  highest so far. That the second is the average and the third the maximum follows from the logs themselves:
  8710 then 7953 are printed as 7953/8332/8710.

A name may be a rail and a sensor in the same line (`GPU` on Xavier), so the form decides, not the name. What no
form fits is kept as `ignored`; a line that names neither memory nor processors is refused with a reason.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from edge_runtime.health.reading import Reading, distinct_name, temperature, unknown
from edge_runtime.health.stamps import Stamp, leading_stamp
from edge_runtime.health.tegrastats_records import (
    Core,
    Engine,
    Iram,
    Memory,
    Rail,
    Sensor,
    Swap,
    TegrastatsLine,
)

MAX_LINE = 8192
"""Longest line that is looked at, in characters; the longest known one has 700."""

NOT_PRINTED = "not printed in this line"


class NotTegrastats(ValueError):
    """The line is not one of tegrastats; the text says why."""


_NAME = r"[A-Za-z][\w.+-]{0,39}?"
_END = r"(?=\s|$)"
_NUMBER = r"-?\d{1,12}(?:\.\d{1,9})?"
_SIZE = r"\d{1,12}"
_FIRST = re.compile(rf"(?<![\w@])RAM\s+{_SIZE}/")
_MEMORY = (
    rf"(?P<name>RAM|SWAP|IRAM)\s+(?P<used>{_SIZE})/(?P<total>{_SIZE})(?P<unit>[kMG])B"
    r"(?:\s*\((?P<note>[^()]*)\))?"
)
_SENSOR = rf"(?P<name>{_NAME})@(?P<now>{_NUMBER})°?C(?:/(?P<max>{_NUMBER})°?C)?{_END}"
_RAIL = (
    rf"(?P<name>{_NAME})\s+(?P<now>{_NUMBER})(?:mW)?/(?P<average>{_NUMBER})(?:mW)?"
    rf"(?:/(?P<max>{_NUMBER})(?:mW)?)?{_END}"
)
_RAIL_NOW = (  # no average: told from a clock by its unit or its name
    rf"(?P<name>{_NAME})\s+(?P<now>{_NUMBER})mW{_END}"
    rf"|(?P<rail>(?:VDD|VIN|POM|SYS)[\w.+-]{{0,36}})\s+(?P<bare>{_NUMBER}){_END}"
)
_ENGINE = (
    rf"(?P<name>{_NAME})(?:_FREQ)?\s+(?=off|[-\d@])(?:(?P<off>off)|(?:(?P<load>{_NUMBER})%)?"
    rf"(?:@\[(?P<list>[^\]]*)\]|@(?P<at>{_NUMBER})|(?P<bare>(?<!%)-?{_SIZE}))?){_END}"
)
_FORMS: Mapping[str, re.Pattern[str]] = {
    "memory": re.compile(_MEMORY),
    "cpu": re.compile(rf"CPU\s*\[(?P<cores>[^\]]*)\](?:@(?P<clock>{_NUMBER}))?", re.IGNORECASE),
    "limit": re.compile(rf"EDP\s+limit\s+(?P<limit>{_SIZE}){_END}"),
    "mts": re.compile(rf"MTS\s+fg\s+(?P<fg>{_SIZE})%\s+bg\s+(?P<bg>{_SIZE})%"),
    "sensor": re.compile(_SENSOR),
    "rail": re.compile(_RAIL),
    "rail_now": re.compile(_RAIL_NOW),
    "engine": re.compile(_ENGINE),
}
_CORE = re.compile(rf"(?P<load>{_NUMBER})%(?:@(?P<clock>{_NUMBER}))?")
_LFB = re.compile(rf"lfb\s+(?P<blocks>{_SIZE})x(?P<size>{_SIZE})(?P<unit>[kMG])B")
_LFB_KB = re.compile(rf"lfb\s+(?P<size>{_SIZE})kB")
_CACHED = re.compile(rf"cached\s+(?P<size>{_SIZE})(?P<unit>[kMG])B")
_IN_MB: Mapping[str, float] = {"k": 1 / 1024, "M": 1, "G": 1024}


def parse_line(line: str) -> TegrastatsLine:
    """Read one line.

    Raises:
        NotTegrastats: the line is empty, too long, or holds neither memory nor processors.
    """
    text = line.strip("\r\n\0 \t\"'")
    if not text:
        raise NotTegrastats("the line is empty")
    if len(text) > MAX_LINE:
        raise NotTegrastats(f"the line has more than {MAX_LINE} characters")
    # every release begins with RAM; before it stands what a logger or a shell put there
    first = _FIRST.search(text)
    stamp, words = leading_stamp(text[: first.start()] if first else text)
    rest, words = (text[first.start() :], words) if first else (words, "")
    builder = _Builder(stamp)
    builder.ignored += words.split()
    position = 0
    while position < len(rest):
        if rest[position].isspace():
            position += 1
            continue
        for kind, pattern in _FORMS.items():
            if found := pattern.match(rest, position):
                getattr(builder, kind)(found)
                position = found.end()
                break
        else:
            word = rest[position:].split(None, 1)[0]
            builder.ignored.append(word)
            position += len(word)
    if not builder.recognised:
        raise NotTegrastats("not a line of tegrastats: it names neither RAM nor CPU")
    return builder.line()


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _clock(text: str | None) -> Reading[int]:
    if text is None:
        return unknown(NOT_PRINTED)
    value = _number(text)
    return unknown(f"{text} MHz is not a clock") if value < 0 else Reading(int(value))


def _percent(text: str | None) -> Reading[float]:
    if text is None:
        return unknown(NOT_PRINTED)
    value = _number(text)
    return Reading(value) if value >= 0 else unknown(f"{text} % is not a load")


def _milliwatts(name: str, text: str | None) -> Reading[int]:
    if name == "NC":
        return unknown("not connected: the sensor's channel has no rail")
    if text is None:
        return unknown("printed from L4T 39 on")
    value = _number(text)
    return unknown(f"{text} mW is not a consumption") if value < 0 else Reading(int(value))


class _Builder:
    """Takes the fields of one line; each method takes the match of the form of its name."""

    def __init__(self, stamp: Stamp) -> None:
        self.time: Reading[str] = Reading(stamp) if stamp else unknown(NOT_PRINTED)
        self.ram: Reading[Memory] = unknown(NOT_PRINTED)
        self.swap: Reading[Swap] = unknown(NOT_PRINTED)
        self.iram: Reading[Iram] = unknown(NOT_PRINTED)
        self.cpus: tuple[Core, ...] = ()
        self.engines: dict[str, Engine] = {}
        self.temperatures: dict[str, Sensor] = {}
        self.rails: dict[str, Rail] = {}
        self.extras: dict[str, int] = {}
        self.ignored: list[str] = []
        self.recognised = False

    def memory(self, found: re.Match[str]) -> None:
        note, in_mb = found["note"] or "", _IN_MB[found["unit"]]
        used, total = int(found["used"]) * in_mb, int(found["total"]) * in_mb
        if found["name"] == "IRAM":
            size = _LFB_KB.search(note)
            free: Reading[float] = Reading(int(size["size"])) if size else unknown(NOT_PRINTED)
            self.iram = Reading(Iram(Reading(used * 1024), Reading(total * 1024), free))
        elif found["name"] == "SWAP":
            cached = _CACHED.search(note)
            in_ram: Reading[float] = (
                Reading(int(cached["size"]) * _IN_MB[cached["unit"]]) if cached else unknown(NOT_PRINTED)
            )
            self.swap = Reading(Swap(Reading(used), Reading(total), in_ram))
        else:
            self.recognised = True
            block = _LFB.search(note)
            absent: Reading[int] = unknown(NOT_PRINTED)
            self.ram = Reading(
                Memory(
                    Reading(used),
                    Reading(total),
                    Reading(int(block["blocks"])) if block else absent,
                    Reading(int(block["size"])) if block else absent,
                    Reading(block["unit"] + "B") if block else unknown(NOT_PRINTED),
                )
            )

    def cpu(self, found: re.Match[str]) -> None:
        self.recognised = True
        words = [word.strip() for word in found["cores"].split(",")] if found["cores"].strip() else []
        self.cpus = tuple(_core(word, found["clock"]) for word in words)

    def limit(self, found: re.Match[str]) -> None:
        self.extras["EDP limit"] = int(found["limit"])

    def mts(self, found: re.Match[str]) -> None:
        self.extras["MTS fg"], self.extras["MTS bg"] = int(found["fg"]), int(found["bg"])

    def sensor(self, found: re.Match[str]) -> None:
        highest = found["max"]
        self.temperatures[distinct_name(self.temperatures, found["name"])] = Sensor(
            temperature(float(found["now"])),
            unknown("printed from L4T 39 on") if highest is None else temperature(float(highest)),
        )

    def rail(self, found: re.Match[str]) -> None:
        name = found["name"]
        self.rails[distinct_name(self.rails, name)] = Rail(
            _milliwatts(name, found["now"]),
            _milliwatts(name, found["average"]),
            _milliwatts(name, found["max"]),
        )

    def rail_now(self, found: re.Match[str]) -> None:
        name, now = found["name"] or found["rail"], found["now"] or found["bare"]
        absent: Reading[int] = unknown(NOT_PRINTED)
        self.rails[distinct_name(self.rails, name)] = Rail(_milliwatts(name, now), absent, absent)

    def engine(self, found: re.Match[str]) -> None:
        name = distinct_name(self.engines, found["name"])
        if found["off"]:
            self.engines[name] = Engine("off", unknown("off"), unknown("off"))
            return
        clock = found["at"] or found["bare"]
        if found["list"] is not None:
            words = [word.strip() for word in found["list"].split(",") if word.strip()]
            clocks = tuple(_clock(word) if re.fullmatch(_NUMBER, word) else unknown(word) for word in words)
        else:
            clocks = (_clock(clock),) if clock is not None else ()
        self.engines[name] = Engine(
            "on", _percent(found["load"]), Reading(clocks) if clocks else unknown(NOT_PRINTED)
        )

    def line(self) -> TegrastatsLine:
        engines = dict(self.engines)
        emc, gpu = engines.pop("EMC", None), engines.pop("GR3D", None)
        return TegrastatsLine(
            time=self.time,
            ram=self.ram,
            swap=self.swap,
            iram=self.iram,
            cpus=self.cpus,
            emc=Reading(emc) if emc else unknown(NOT_PRINTED),
            gpu=Reading(gpu) if gpu else unknown(NOT_PRINTED),
            engines=MappingProxyType(engines),
            temperatures=MappingProxyType(self.temperatures),
            power=MappingProxyType(self.rails),
            extras=MappingProxyType(self.extras),
            ignored=tuple(self.ignored),
        )


def _core(word: str, shared_clock: str | None) -> Core:
    found = _CORE.fullmatch(word)
    if found is None:
        reason = "off" if word.lower() == "off" else f"{word[:20]!r} is not a load"
        return Core(unknown(reason), unknown(reason))
    return Core(_percent(found["load"]), _clock(found["clock"] or shared_clock))
