"""All slots of a run, and the socket at which they can be exchanged: what the composition root holds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from edge_runtime.clock import Clock
from edge_runtime.config import LoadedConfig
from edge_runtime.engines.progress import show_nothing
from edge_runtime.engines.source import EngineSource
from edge_runtime.health import HealthReader
from edge_runtime.node.assigned import Assigned
from edge_runtime.node.camera import CameraDesk
from edge_runtime.node.hot_swap.at_start import is_slot
from edge_runtime.node.hot_swap.configuration import ConfigurationParts, ConfigurationSlot
from edge_runtime.node.hot_swap.desk import SwapDesk, Thermometer
from edge_runtime.node.hot_swap.parts import SlotParts
from edge_runtime.node.hot_swap.server import SwapServer
from edge_runtime.node.hot_swap.slot import Slot
from edge_runtime.node.hot_swap.staying import Staying
from edge_runtime.node.models import ReadyModel
from edge_runtime.perception.pipeline import Lane, Outcome
from edge_runtime.protocol import EventRecord


class HotSwap:
    """The slots of a run.

    Args:
        loaded: the configuration.
        models: that run first; they stay their opener's.
        lanes: one for each model.
        desks: of the cameras, by name.
        dropped: frames so far that nobody looked at, by camera.
        engines: where engines come from.
        clock: monotonic time.
        assigned: what the configuration is at the start, and the folder of releases; None where it stays.
        apply: takes a configuration up between two frames.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        models: Mapping[str, ReadyModel],
        lanes: Iterable[Lane],
        desks: Mapping[str, CameraDesk],
        *,
        dropped: Callable[[str], int],
        engines: EngineSource,
        clock: Clock,
        assigned: tuple[Assigned, Path] | None = None,
        apply: Callable[[LoadedConfig], None] | None = None,
    ) -> None:
        self._clock = clock
        self._loaded = loaded
        # what a build tells is for the guard while perception starts, and not later
        engines = replace(engines, progress=show_nothing)
        cameras = loaded.config.cameras
        self._slots: dict[str, Slot] = {}
        for lane in lanes:
            mine = tuple(name for name, camera in cameras.items() if camera.model == lane.name)
            parts = SlotParts(
                configuration=lambda: self._loaded,
                engines=engines,
                lane=lane,
                desks=tuple(desks[name] for name in mine),
                dropped=partial(_together, dropped, mine),
                clock=clock,
            )
            self._slots[lane.name] = Slot(lane.name, models[lane.name], parts)
        self._of_camera = {name: self._slots[camera.model] for name, camera in cameras.items()}
        self._configuration: ConfigurationSlot | None = None
        if assigned is not None and apply is not None:
            given = ConfigurationParts(
                updates=assigned[1],
                apply=apply,
                manifests=lambda: {name: one.model.manifest for name, one in self.models().items()},
                dropped=partial(_together, dropped, tuple(cameras)),
                clock=clock,
            )
            self._configuration = ConfigurationSlot(assigned[0], given)
        self._staying = None if assigned is None else Staying(assigned[1], self._releases, clock)
        self._server: SwapServer | None = None

    def start(self) -> None:
        """The cameras look from now on."""
        if self._staying is not None:
            self._staying.start()

    def turn(self) -> None:
        """Between two frames, from the evaluator's thread."""
        if self._configuration is not None:
            self._configuration.turn()

    def reconfigured(self, loaded: LoadedConfig) -> None:
        """Another configuration holds; from the evaluator's thread, between two frames."""
        self._loaded = loaded
        for slot in self._slots.values():
            slot.retuned()

    def _releases(self) -> dict[str, tuple[str | None, float]]:
        slots: list[Slot | ConfigurationSlot] = [one for name, one in self._slots.items() if is_slot(name)]
        if self._configuration is not None:
            slots.append(self._configuration)
        looks = [slot.look() for slot in slots]
        return {look.slot: (look.running.release, look.running.seconds) for look in looks}

    def models(self) -> dict[str, ReadyModel]:
        """The models in use, by their names in the configuration."""
        return {name: slot.ready for name, slot in self._slots.items()}

    def took(self, outcome: Outcome, events: Sequence[EventRecord]) -> None:
        """A frame was looked at, and its rules ran; called by the evaluator."""
        self._of_camera[outcome.frame.source].took(outcome, events)
        if self._configuration is not None:
            self._configuration.took(outcome, events)

    def serve(self, socket: Path, health: HealthReader) -> None:
        """Let the updates' process exchange models from now on.

        Args:
            socket: where.
            health: where temperatures are read.

        Raises:
            SwapSocketError: it cannot be made.
        """
        slots: dict[str, Slot | ConfigurationSlot] = {
            name: slot for name, slot in self._slots.items() if is_slot(name)
        }
        if self._configuration is not None:
            slots[self._configuration.name] = self._configuration
        desk = SwapDesk(slots, Thermometer(health, self._clock), self._clock)
        self._server = SwapServer(socket, desk.answer)
        self._server.start()

    def close(self, *, in_order: bool) -> None:
        """Listen no more, and free all models that were opened here; the lanes have ended.

        Args:
            in_order: nothing has failed; the releases in use are not to blame for this end.
        """
        if self._server is not None:
            self._server.stop()
        if self._staying is not None:
            self._staying.stop(in_order=in_order)
        for slot in self._slots.values():
            slot.close()


def _together(dropped: Callable[[str], int], cameras: Sequence[str]) -> int:
    return sum(dropped(camera) for camera in cameras)
