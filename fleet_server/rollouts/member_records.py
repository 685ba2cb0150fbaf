"""What is shown of single devices: of a plan, of a rollout, and why a device has a release or has it not."""

from enum import Enum

from edge_runtime.protocol.topics import DeviceId
from edge_runtime.protocol.update import UpdateAction
from fleet_server.rollouts.plan_records import Record
from fleet_server.rollouts.records import MembershipView, SlotView
from fleet_server.rollouts.states import Exclusion, MemberState


class PlannedDevice(Record):
    """What a plan would do with one device that its selection names.

    Attributes:
        stage: from 1; None where it is not part.
        exclusion: why it is not part.
        why: the same in one sentence, with what would change it; empty for a device that is part.
    """

    device: DeviceId
    bucket: int
    stage: int | None
    exclusion: Exclusion | None
    why: str


class PlannedDevices(Record):
    """A page of them in the order of their names; `next` is the `after` of the following page, None on the last."""

    devices: tuple[PlannedDevice, ...]
    next: DeviceId | None


class MemberView(Record):
    """One device of a rollout.

    Attributes:
        stage: from 1.
        action: what it was last asked: `install`, `rollback`, or `hold` to take an offer back.
        since_ms: when it came into its state; `heard_ms` is its newest report about it.
        text: what the device said.
        excused: a person had the rollout go on in spite of it.
    """

    device: DeviceId
    stage: int
    bucket: int
    action: UpdateAction
    state: MemberState
    code: str | None
    text: str
    seq: int | None
    since_ms: int
    heard_ms: int | None
    excused: bool


class MemberPage(Record):
    """Devices of a rollout in the order of their names; `next` as in `PlannedDevices`."""

    devices: tuple[MemberView, ...]
    next: DeviceId | None


class StepState(str, Enum):
    """Whether one condition on a device's way to a release is met.

    Attributes:
        MET: it is.
        WAITS: not yet; it comes by itself.
        STOPS: not, and nothing goes on before somebody acts.
    """

    MET = "met"
    WAITS = "waits"
    STOPS = "stops"


class WayStep(Record):
    """One condition, in the order in which they have to be met.

    Attributes:
        step: a word for programs.
        text: what was found.
        change: what would change it; empty where nothing has to.
    """

    step: str
    standing: StepState
    text: str
    change: str = ""


class DeviceWay(Record):
    """Why a device has the release of one rollout, or has it not.

    Attributes:
        has_it: the slot runs that release, as the device last said.
        steps: from the selection to the verdict, as far as they are met; only the last one can be another.
    """

    membership: MembershipView
    has_it: bool
    steps: tuple[WayStep, ...]


class DeviceReasons(Record):
    """All that is known about why a device runs what it runs.

    Attributes:
        online, reported_ms: whether it has a session, and when it last reported of its updates.
        ways: of rollouts, the newest first.
    """

    device: DeviceId
    online: bool
    reported_ms: int | None
    slots: tuple[SlotView, ...]
    ways: tuple[DeviceWay, ...]
