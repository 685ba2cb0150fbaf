"""The device under test and what it can be asked, as small protocols; the bench around it is in `hil.parts`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hil.faults import FaultBits


class Injector(Protocol):
    """The device's own fault injector."""

    def order(self, unit: str, kind: str, seconds: float) -> float:
        """Order a fault; when it began, on the rig's clock.

        Raises:
            DeviceError: it was refused.
        """
        ...


class Processes(Protocol):
    """Processes of the device."""

    def kill(self, name: str) -> None:
        """SIGKILL for `guard`, or for one of its workers.

        Raises:
            DeviceError: it does not run.
        """
        ...

    def restarts(self) -> int:
        """Starts of workers after the first one, since the guard began."""
        ...


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event of the device.

    Attributes:
        rule: of which it is.
        state: `started`, `updated` or `ended`.
        latency_ms: from the picture to the event, as the device says.
        late: it missed its deadline.
    """

    rule: str
    state: str
    latency_ms: float
    late: bool


class Events(Protocol):
    """What the device makes of what its camera sees."""

    def seen(self) -> Sequence[SeenEvent]:
        """All events since the rig was opened, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of events that the outbox accepted.

    Attributes:
        accepted, queued, delivered: of the ledger.
        given_up: expired, evicted, rejected or lost, each of them counted.
        balances: whether the ledger's sums agree.
    """

    accepted: int
    queued: int
    delivered: int
    given_up: int
    balances: bool


class Queue(Protocol):
    """The device's outbox, and a load that a rig hands to it."""

    def load(self, number: int) -> int:
        """Hand over so many events that may leave; how many were accepted."""
        ...

    def fates(self) -> Fates:
        """How it stands.

        Raises:
            DeviceError: it does not answer.
        """
        ...

    def at_server(self) -> tuple[int, int]:
        """Of the load: how many the server has, and how many of them twice."""
        ...


class Heat(Protocol):
    """How hot the device is."""

    def celsius(self) -> float | None:
        """Of its hottest sensor; None where it shows none."""
        ...

    def warm(self) -> None:
        """Let it work as hard as it does in the field, in the warmest air that the rig can make."""
        ...

    def late_share(self) -> float | None:
        """Frames that missed their deadline, of all since `warm`; None where nobody counts them."""
        ...


class MotionGate(Protocol):
    """What passes the motion gate to the drive."""

    def passed(self) -> int:
        """Commands that passed so far."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """How an update stands.

    Attributes:
        runs: the release in use; empty for what the device was set up with.
        under_way: one is being taken.
        whole: what is in use is complete and undamaged.
    """

    runs: str
    under_way: bool
    whole: bool


class Updates(Protocol):
    """Releases of models."""

    def begin(self) -> str:
        """Have the device take another release; which it will be."""
        ...

    def standing(self) -> Standing:
        """How it stands.

        Raises:
            DeviceError: nobody answers.
        """
        ...


class Models(Protocol):
    """Models on the board, asked by the runtime's own commands."""

    def golden(self) -> tuple[bool, str]:
        """Whether the golden vectors hold there, and what was said."""
        ...


class Pictures(Protocol):
    """Annotated pictures on the board."""

    def accuracy(self) -> float:
        """The mAP of the rig's model on them.

        Raises:
            DeviceError: it could not be measured.
        """
        ...


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What the runtime's processes hold together.

    Attributes:
        resident_bytes: proportional share, so that what is shared counts once.
        descriptors: open ones.
        swap_bytes: in use on the whole machine.
    """

    resident_bytes: int
    descriptors: int
    swap_bytes: int


class Memory(Protocol):
    """Memory and descriptors."""

    def use(self) -> MemoryUse:
        """Now.

        Raises:
            DeviceError: nothing of the runtime runs, or it cannot be read.
        """
        ...


class Device(Protocol):
    """The device under test, which every rig has."""

    def state(self) -> str | None:
        """Of its guard; None where none answers."""
        ...

    def arm(self) -> None:
        """A person's act: a body that stands by may move.

        Raises:
            DeviceError: it was refused.
        """
        ...

    def frames(self) -> int | None:
        """Evaluated by perception since it began; None where it does not say."""
        ...

    def faults(self) -> FaultBits:
        """What is wrong with it now, and how often it was."""
        ...

    def acknowledge(self) -> None:
        """A person's act: what is latched was looked at, and is cleared.

        Raises:
            DeviceError: it was refused.
        """
        ...

    def facts(self) -> dict[str, str]:
        """What it is: board, system, versions."""
        ...
