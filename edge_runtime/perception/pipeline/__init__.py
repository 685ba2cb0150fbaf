"""The loop that overlaps decoding, preprocessing, inference and evaluation."""

from edge_runtime.perception.pipeline.execution import (
    Execution,
    choose_execution,
    fewest_in_flight,
    usable_cores,
)
from edge_runtime.perception.pipeline.lane import Lane
from edge_runtime.perception.pipeline.loop import TICK_S, Consumer, Pipeline
from edge_runtime.perception.pipeline.outcome import Evaluated, NotEvaluated, Outcome, OutcomeJudge, Unseen
from edge_runtime.perception.pipeline.supply import LaneSource
from edge_runtime.perception.pipeline.timing import StageSummary, StageTimes
from edge_runtime.perception.pipeline.under_way import UnderWay

__all__ = [
    "TICK_S",
    "Consumer",
    "Evaluated",
    "Execution",
    "Lane",
    "LaneSource",
    "NotEvaluated",
    "Outcome",
    "OutcomeJudge",
    "Pipeline",
    "StageSummary",
    "StageTimes",
    "UnderWay",
    "Unseen",
    "choose_execution",
    "fewest_in_flight",
    "usable_cores",
]
