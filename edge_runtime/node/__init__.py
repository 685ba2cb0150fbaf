"""The composition root: what runs on the device and how it is wired."""

from edge_runtime.node.models import ReadyModel, execution_of, load_models
from edge_runtime.node.node import Node
from edge_runtime.node.snapshot import CameraSnapshot, ModelSnapshot, RunSnapshot

__all__ = [
    "CameraSnapshot",
    "ModelSnapshot",
    "Node",
    "ReadyModel",
    "RunSnapshot",
    "execution_of",
    "load_models",
]
