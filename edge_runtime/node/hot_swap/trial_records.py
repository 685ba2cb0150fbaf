"""What goes between perception and the process in which a candidate is tried: JSON lines, and frames as bytes.

Perception's first line is a `TrialRequest`; the process answers with a `TrialOpened`. Then each `Shown`, followed
by the frame's bytes, is answered with a `Saw`.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from edge_runtime.config.engines import EnginesConfig
from edge_runtime.config.node import ModelConfig
from edge_runtime.protocol.update import UpdateCode

MAX_LINE_BYTES = 4 << 20


class TrialRecord(BaseModel):
    """Base of the lines."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TrialRequest(TrialRecord):
    """What is to be tried, and against what it is timed.

    Attributes:
        name: of the model in the configuration.
        package: folder of the candidate's package.
        running: folder or archive of the package in use.
        settings: of the model in the configuration.
        batch: images in one run at most.
        engines: of the configuration.
        engine_folder: where engines are kept.
        effective: what runs the model in use; a candidate that runs on something else is refused.
        share: of the time that it may run where the CPU runs it, above 0, to 1.
    """

    name: str
    package: Path
    running: Path
    settings: ModelConfig
    batch: int
    engines: EnginesConfig
    engine_folder: Path
    effective: str
    share: Annotated[float, Field(gt=0, le=1)]


class TrialOpened(TrialRecord):
    """What came of opening it.

    Attributes:
        package: digest of the package; None where it did not open.
        labels: of the candidate.
        on_cpu: the CPU runs it.
        running_ms: median time of the model in use in this process, one frame a run; None where it did not open.
        code, text: why it is refused.
    """

    package: str | None = None
    labels: tuple[str, ...] = ()
    on_cpu: bool = True
    running_ms: float | None = None
    code: UpdateCode | None = None
    text: Annotated[str, Field(max_length=300)] = ""


class Shown(TrialRecord):
    """A frame follows: uint8, height x width x 3, BGR."""

    height: Annotated[int, Field(ge=1, le=1 << 16)]
    width: Annotated[int, Field(ge=1, le=1 << 16)]


class Saw(TrialRecord):
    """What the candidate made of it, at its own score.

    Attributes:
        xyxy: corners of each object in pixels of the frame.
        labels: numbers in the candidate's label map.
        nonfinite: some value that decides about boxes was no number.
        unanswered: it failed or took too long, or gave nothing else.
        ms: of the run alone; None where it failed.
        used_ms: processor time of the process for all of it.
    """

    xyxy: tuple[tuple[float, float, float, float], ...] = ()
    labels: tuple[int, ...] = ()
    nonfinite: bool = False
    unanswered: bool = False
    ms: float | None = None
    used_ms: Annotated[float, Field(ge=0)] = 0.0
