"""Validated configuration: one YAML file, strict models, located errors, secrets kept out."""

from edge_runtime.config.load import LoadedConfig, load_config
from edge_runtime.config.model_checks import class_checks, label_checks, variant_checks
from edge_runtime.config.node import NodeConfig
from edge_runtime.config.overlay import Overlay, read_overlay
from edge_runtime.config.problem import InvalidConfig
from edge_runtime.document import Location, Problem, format_location

__all__ = [
    "InvalidConfig",
    "LoadedConfig",
    "Location",
    "NodeConfig",
    "Overlay",
    "Problem",
    "class_checks",
    "format_location",
    "label_checks",
    "load_config",
    "read_overlay",
    "variant_checks",
]
