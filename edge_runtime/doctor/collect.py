"""All collectors, one after the other, into one record."""

import re
from pathlib import Path

from edge_runtime.clock import Clock
from edge_runtime.config import LoadedConfig
from edge_runtime.config.source import GStreamerSource
from edge_runtime.doctor import hardware, machine, software
from edge_runtime.doctor.facts import ConfigurationFacts, Facts, ModelFacts
from edge_runtime.doctor.look import Look
from edge_runtime.doctor.models import OpenModel

_FACTORY = re.compile(r"[a-zA-Z][\w-]{0,60}")


def collect(
    look: Look,
    clock: Clock,
    state: Path,
    *,
    loaded: LoadedConfig | None = None,
    timeout_s: float = 60.0,
    open_model: OpenModel | None = None,
) -> Facts:
    """Look at the machine. Never raises for what it has or has not.

    Args:
        look: where and how.
        clock: whose wall time is asked whether it is synchronised.
        state: the state directory, which need not be there.
        loaded: a configuration, whose models are opened.
        timeout_s: one model must be open by then.
        open_model: opens a model of the configuration and tells what became of it.
    """
    packages = software.packages(look)
    board = machine.jetson(look, packages)
    asked = None if loaded is None else configuration_facts(loaded)
    elements = (
        *hardware.ELEMENTS,
        *(() if board is None else hardware.JETSON_ELEMENTS),
        *(() if asked is None else asked.elements),
    )
    models: dict[str, ModelFacts] = {}
    if asked is None:
        look.reasons["configuration"] = "no configuration was given"
    elif open_model is not None:
        models = {name: open_model(name, providers, timeout_s) for name, providers in asked.providers.items()}
    return Facts(
        machine=machine.machine(look),
        jetson=board,
        gpu=hardware.gpu(look, board),
        cuda=software.cuda(look, packages),
        packages=packages,
        modules=software.modules(look),
        video=hardware.video(look, elements),
        clocks=machine.clocks(look),
        clock_synced=machine.clock_synced(look, clock),
        memory=machine.memory(look),
        disk=machine.disk(look, state),
        configuration=asked,
        models=models,
        unknown=dict(look.reasons),
    )


def configuration_facts(loaded: LoadedConfig) -> ConfigurationFacts:
    """What a configuration asks of the machine. Of pipelines, only the names of their elements are kept."""
    sources = [camera.source for camera in loaded.config.cameras.values()]
    elements: set[str] = set()
    for source in sources:
        if isinstance(source, GStreamerSource):
            words = (part.split()[:1] for part in source.pipeline.split("!"))
            elements |= {word[0] for word in words if word and _FACTORY.fullmatch(word[0])}
    return ConfigurationFacts(
        path=str(loaded.path),
        providers={name: tuple(model.providers) for name, model in loaded.config.models.items()},
        sources=tuple(sorted({source.kind for source in sources})),
        elements=tuple(sorted(elements)),
        is_device=loaded.config.is_device,
    )
