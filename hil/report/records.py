"""A run's report as one record. Its canonical bytes are what is signed."""

from typing import Annotated, Literal

from pydantic import Field

from edge_runtime.protocol.release import SignedRecord
from hil.measurement import Measurement

Text = Annotated[str, Field(max_length=1000)]
Short = Annotated[str, Field(max_length=200)]


class TestOutcome(SignedRecord):
    """What became of one test of the plan.

    Attributes:
        test: its node id below the plan.
        outcome: `absent` where the rig's file declares that it lacks what the test needs.
        reason: of anything but `passed`.
        seconds: that it took, of this machine's time.
    """

    __test__ = False

    test: Short
    outcome: Literal["passed", "failed", "absent"]
    reason: Text = ""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class RunReport(SignedRecord):
    """One run of the plan on one rig.

    Attributes:
        rig, kind: which one.
        board, jetpack, model: its place in the matrix.
        started: wall time of this machine, ISO 8601; `synced` says whether that clock was.
        revision: of the plan: the runtime's version.
        machine: what the plan ran on.
        device: what it was tried on.
        selected: how the tests were chosen, empty for all of the short form.
        healthy: the rig stayed in rotation.
        unread: fault bits that nobody could ask for.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)] = 1
    rig: Short
    kind: Literal["sim", "local", "bench"]
    board: Short
    jetpack: Short
    model: Short
    started: Short
    synced: bool
    revision: Short
    machine: dict[str, Short]
    device: dict[str, Short]
    selected: Short = ""
    healthy: bool
    tests: tuple[TestOutcome, ...]
    measurements: tuple[Measurement, ...]
    unread: tuple[Text, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing failed and something was measured."""
        failed = any(one.outcome == "failed" for one in self.tests)
        return self.healthy and not failed and bool(self.measurements)

    @property
    def cell(self) -> tuple[str, str, str]:
        """Its place in the matrix."""
        return self.board, self.jetpack, self.model
