"""Rule machines: one module per kind, each a pure step from a scene to what happened."""

from collections.abc import Sequence

from edge_runtime.config.rules import (
    AbsenceRule,
    CountRule,
    DwellRule,
    LineRule,
    OccupancyRule,
    RuleConfig,
    ZoneRule,
)
from edge_runtime.events.rules.absence import AbsenceMachine
from edge_runtime.events.rules.base import RuleMachine
from edge_runtime.events.rules.count import CountMachine
from edge_runtime.events.rules.dwell import DwellMachine
from edge_runtime.events.rules.line import LineMachine
from edge_runtime.events.rules.occupancy import OccupancyMachine
from edge_runtime.events.rules.zone import ZoneMachine

__all__ = ["RuleMachine", "make_rule"]


def make_rule(rule: RuleConfig, labels: Sequence[str]) -> RuleMachine:
    """The machine of a configured rule.

    Args:
        rule: the rule.
        labels: the model's label map, by label index.

    Raises:
        ConfigError: the rule names a label that the model does not have.
    """
    match rule:
        case ZoneRule():
            return ZoneMachine(rule, labels)
        case OccupancyRule():
            return OccupancyMachine(rule, labels)
        case LineRule():
            return LineMachine(rule, labels)
        case DwellRule():
            return DwellMachine(rule, labels)
        case AbsenceRule():
            return AbsenceMachine(rule, labels)
        case CountRule():
            return CountMachine(rule, labels)
