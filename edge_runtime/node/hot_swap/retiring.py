"""Frees a model that looks no more, as soon as no frame needs it."""

import threading
import time
from typing import Final

from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline import Lane
from edge_runtime.telemetry import get_logger

_LOOK_S: Final = 0.02


def retire(lane: Lane, model: LoadedModel) -> threading.Thread:
    """Close `model` once the lane has let go of it; whoever asks does not wait."""
    thread = threading.Thread(target=_retire, args=(lane, model), name="retire-model", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the exchange has been made, and stands
        get_logger().error("a model stays in memory until this process ends", why=str(error))
    return thread


def _retire(lane: Lane, model: LoadedModel) -> None:
    while not lane.let_go(model):
        if lane.done:
            break
        time.sleep(_LOOK_S)
    model.close()
