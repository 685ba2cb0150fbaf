"""A rig's file: which device stands where, by which drivers it is reached, what it has not, and other limits."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from hil.bench.records import BenchParts, RuntimeCommands
from hil.measurement import Limits, MeasureName
from hil.parts import PartName
from hil.problems import BadRig
from sim.scenario.records import PositiveSeconds, Record
from sim.toml_file import Location, read_toml

RIGS = Path(__file__).parent / "rigs"

Reason = Annotated[str, Field(min_length=10, max_length=200)]
Word = Annotated[str, Field(min_length=1, max_length=64)]

OF_BENCH: tuple[PartName, ...] = (
    "power",
    "recovery_button",
    "console",
    "shell",
    "usb",
    "network",
    "byte_counter",
    "marker",
    "shutter",
    "vendor_script",
    "updates",
)
"""What a bench reaches by a driver; everything else follows from its shell and its file's `runtime`."""


class Board(Record):
    """Which row of the matrix a run belongs to.

    Attributes:
        name: of the board, as people call it.
        jetpack: release of the system on it; `none` where it has none.
        model: that it is tried with.
    """

    name: Word
    jetpack: Word = "none"
    model: Word


class Times(Record):
    """How long the plan lets things last, in seconds of the rig's clock.

    Attributes:
        boot: at most, until the device works.
        off: without power; capacitors hold a board up for some seconds.
        settle: at most, until something that was put right is well again.
        soak: of the thermal soak.
        offline: without a link.
        steady: over which memory is measured.
        update: at most, until an update has ended.
        cuts: power cuts in an update; a number.
    """

    boot: PositiveSeconds = 300.0
    off: PositiveSeconds = 10.0
    settle: PositiveSeconds = 120.0
    soak: PositiveSeconds = 3600.0
    offline: PositiveSeconds = 86_400.0
    steady: PositiveSeconds = 3600.0
    update: PositiveSeconds = 1800.0
    cuts: Annotated[int, Field(ge=1, le=1000)] = 20


class RigFile(Record):
    """The whole file.

    Attributes:
        name: that of the file.
        kind: `sim`, `local` or `bench`.
        about: what it is, in a sentence.
        board: for the report.
        absent: parts that it has not, each with the reason; tests that need them are told apart, not failed.
        times: of the plan.
        limits: instead of the plan's own, by measurement.
        driver: of a bench, by part.
        runtime: of a bench: how the runtime on the device is asked.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    kind: Literal["sim", "local", "bench"]
    about: str
    board: Board
    absent: dict[PartName, Reason] = Field(default_factory=dict)
    times: Times = Times()
    limits: dict[MeasureName, Limits] = Field(default_factory=dict)
    driver: BenchParts = BenchParts()
    runtime: RuntimeCommands | None = None


def read_rig(path: Path) -> RigFile:
    """Read and check one file.

    Raises:
        BadRig: it cannot be read, or says what no rig says.
    """
    file = read_toml(path, RigFile, BadRig, "a rig")
    problems = _contradictions(file.record, path)
    if problems:
        raise BadRig(file.told(problems))
    return file.record


def rig_path(given: str) -> Path:
    """The file of a rig: one of this project's by its name, any other by its path.

    Raises:
        BadRig: there is none.
    """
    own = RIGS / f"{given}.toml"
    if own.exists():
        return own
    path = Path(given)
    if path.is_file():
        return path
    known = ", ".join(sorted(one.stem for one in RIGS.glob("*.toml")))
    raise BadRig(f"{given}: there is no such file, and no rig of that name; rigs are {known}")


def _contradictions(rig: RigFile, path: Path) -> list[tuple[Location, str]]:
    found: list[tuple[Location, str]] = []
    if rig.name != path.stem:
        found.append((("name",), f"is {rig.name}, and the file is called {path.stem}"))
    given = rig.driver.given()
    for part in given:
        if rig.kind != "bench":
            found.append((("driver", part), f"rig {rig.kind} brings its own {part}; drivers are of a bench"))
        elif part in rig.absent:
            found.append((("absent", part), "has a driver, so it is not absent"))
    if rig.kind != "bench":
        if rig.runtime is not None:
            found.append((("runtime",), f"rig {rig.kind} has its own runtime; this is of a bench"))
        return found
    found += [
        (("driver",), f"has no {part}; give one, or say under absent why there is none")
        for part in OF_BENCH
        if part not in given and part not in rig.absent
    ]
    if rig.runtime is None and "shell" in given:
        found.append((("runtime",), "is missing: how the runtime on the device is asked"))
    if rig.runtime is not None:
        found += _without_means(rig, rig.runtime)
    return found


def _without_means(rig: RigFile, runtime: RuntimeCommands) -> list[tuple[Location, str]]:
    """Parts that follow from `runtime`, and which neither it gives nor the file declares absent."""
    given: dict[PartName, bool] = {
        "injector": runtime.config is not None,
        "events": runtime.events is not None,
        "queue": runtime.load is not None and runtime.at_server is not None,
        "motion": runtime.passed is not None,
        "models": runtime.package is not None,
        "pictures": runtime.package is not None and runtime.images is not None,
        "kernel_log": bool(runtime.kernel_log),
    }
    found: list[tuple[Location, str]] = []
    for part, there in given.items():
        if there and part in rig.absent:
            found.append((("absent", part), "is given under runtime, so it is not absent"))
        if not there and part not in rig.absent:
            found.append((("runtime",), f"gives no means for {part}; give them, or say under absent why not"))
    return found


PARTS: tuple[PartName, ...] = get_args(PartName)
