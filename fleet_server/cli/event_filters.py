"""Which events are meant: the options that `fleet events tail`, `list` and `export` have in common."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from edge_runtime.errors import ConfigError
from fleet_server.cli.client import FleetClient
from fleet_server.cli.names import whole_device
from fleet_server.cli.options import stands_for

DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="ID", help="Only of this device; the middle of its id may be an ellipsis."
    ),
]
Camera = Annotated[str | None, typer.Option("--camera", metavar="NAME", help="Only of this camera.")]
Rule = Annotated[str | None, typer.Option("--rule", metavar="NAME", help="Only of this rule.")]
Kind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only of this kind.")]
Severity = Annotated[
    str | None,
    typer.Option(
        "--severity", metavar="LEVEL", help="Only this severe or more: info, notice, warning or critical."
    ),
]


@dataclass(frozen=True, slots=True)
class Filters:
    """What was asked for; None restricts nothing."""

    device: str | None
    camera: str | None
    rule: str | None
    kind: str | None
    severity: str | None

    def __post_init__(self) -> None:
        if self.severity is not None and self.severity not in ("info", "notice", "warning", "critical"):
            raise ConfigError("--severity is info, notice, warning or critical")

    def asked(self, client: FleetClient) -> dict[str, Any]:
        """Parameters of the API.

        Raises:
            NotFound, ConfigError: a shortened device means none, or several.
        """
        return {
            "device": None if self.device is None else whole_device(client, self.device),
            "camera": self.camera,
            "rule": self.rule,
            "kind": self.kind,
            "severity_at_least": self.severity,
        }


def _made(**given: str | None) -> AbstractContextManager[Filters]:
    return nullcontext(Filters(**given))


filtered = stands_for(
    "filters",
    {"device": DeviceOption, "camera": Camera, "rule": Rule, "kind": Kind, "severity": Severity},
    _made,
)
"""Gives a command these options, and as `filters` what they mean."""
