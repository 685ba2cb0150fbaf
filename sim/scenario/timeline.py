"""What every rig does with a scenario's faults: brings each about at its time, and puts it right at its end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edge_runtime.errors import EdgeRuntimeError
from sim.scenario.faults import AGAIN, WORLD
from sim.scenario.records import Fault

SERVICE_RESTARTS_S = 2.0
"""The service manager starts a guard again that was killed."""


class NeverReady(EdgeRuntimeError):
    """The device did not come to work before the faults began, or did not settle after them."""


@dataclass(frozen=True, slots=True)
class Means:
    """How a rig brings one fault about.

    Attributes:
        begin: is given the amount, 0 where the fault takes none.
        end: puts it right; None for what happens in a moment, or ends by itself.
    """

    begin: Callable[[float], object]
    end: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class _Action:
    at: float
    do: Callable[[], object]
    mends: bool


@dataclass(slots=True)
class Timeline:
    """Actions at their times; seconds from the moment in which the device works."""

    _actions: list[_Action] = field(default_factory=list)

    def at(self, seconds: float, do: Callable[[], object], *, mends: bool = False) -> None:
        """Do it then.

        Args:
            seconds: when.
            do: what.
            mends: it puts something right, and is done in any case.
        """
        self._actions.append(_Action(seconds, do, mends))
        self._actions.sort(key=lambda action: action.at)

    def bring_about(self, fault: Fault, means: Mapping[tuple[str, str], Means], duration: float) -> None:
        """A fault of the world, from its beginning to its end.

        Args:
            fault: of the scenario.
            means: of the rig.
            duration: of the scenario.

        Raises:
            NeverReady: the rig has no means for it.
        """
        key = (fault.unit, fault.kind)
        if key not in means:
            raise NeverReady(f"{fault.unit} {fault.kind}: this rig has no means to bring it about")
        own, standard = means[key], WORLD[key].amount or 0.0
        amount = standard if fault.amount is None else fault.amount
        ends = duration if fault.lasts is None else fault.at + fault.lasts
        if key in AGAIN:
            at = fault.at
            while at < ends:
                self.at(at, lambda: own.begin(amount))
                at += amount
            return
        self.at(fault.at, lambda: own.begin(amount))
        if own.end is not None:
            self.at(ends, own.end, mends=True)

    def run(self, now: float) -> None:
        """Do what is due."""
        while self._actions and self._actions[0].at <= now:
            self._actions.pop(0).do()

    def mend(self) -> None:
        """Put right what is left to be put right, and forget the rest."""
        left, self._actions = self._actions, []
        for action in left:
            if action.mends:
                action.do()
