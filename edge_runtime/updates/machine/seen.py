"""What one step goes by, and what it comes to."""

from dataclasses import dataclass, field

from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.update import LeftAs, UpdateAction, UpdateCode
from edge_runtime.protocol.windows import ALWAYS, Windows
from edge_runtime.updates.machine.moment import Moment
from edge_runtime.updates.machine.observed import Device, Errand, SlotView
from edge_runtime.updates.machine.orders import Order
from edge_runtime.updates.machine.table import Deadlines
from edge_runtime.updates.machine.work import Work


@dataclass(frozen=True, slots=True)
class Rules:
    """What the device's configuration says.

    Attributes:
        device: its id.
        deadlines: of the states.
        windows: when a new release may be put in use.
    """

    device: str
    deadlines: Deadlines = field(default_factory=Deadlines)
    windows: Windows = ALWAYS


@dataclass(frozen=True, slots=True)
class Seen:
    """How things stand.

    Attributes:
        now: the time.
        wall_ms: milliseconds since 1970; None where the clock is not believed.
        up_ms: for how long this process has run.
        view: the slot, as perception says it; None where it does not answer.
        device: what else has a say.
        active: release that the store names for the slot; None for the configured package.
        values: per-device values with which `active` was assigned.
        good: the one to go back to; None for the configured package.
        on_trial: release that the store has on trial in the slot; None where it has none.
        errand: of this work; None where none is under way.
        newer: what a later assignment to the same slot asks for; None where there is none.
        vouched: whether people still sign for the release; None where that is not known at the moment.
        refused: why an order of the work was refused for good; None where none was.
    """

    now: Moment
    wall_ms: int | None
    view: SlotView | None
    up_ms: int = 0
    device: Device = field(default_factory=Device)
    active: str | None = None
    values: Values = field(default_factory=dict)
    good: str | None = None
    on_trial: str | None = None
    errand: Errand | None = None
    newer: UpdateAction | None = None
    vouched: bool | None = True
    refused: tuple[UpdateCode, str] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a step comes to.

    Attributes:
        work: as it goes on; it is written down before anything is ordered.
        orders: to be carried out in this order. One that fails is given again, as long as it is needed.
        left: how the device is left, once a terminal work needs nothing more; then its report is due.
    """

    work: Work
    orders: tuple[Order, ...] = ()
    left: LeftAs | None = None
