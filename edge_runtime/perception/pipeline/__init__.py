"""The loop that overlaps decoding, preprocessing, inference and evaluation."""

from edge_runtime.perception.pipeline.execution import Execution, choose_execution, usable_cores
from edge_runtime.perception.pipeline.lane import Lane
from edge_runtime.perception.pipeline.loop import Consumer, Pipeline
from edge_runtime.perception.pipeline.outcome import Evaluated, NotEvaluated, Outcome, Unseen
from edge_runtime.perception.pipeline.supply import LaneSource
from edge_runtime.perception.pipeline.timing import StageSummary, StageTimes

__all__ = [
    "Consumer",
    "Evaluated",
    "Execution",
    "Lane",
    "LaneSource",
    "NotEvaluated",
    "Outcome",
    "Pipeline",
    "StageSummary",
    "StageTimes",
    "Unseen",
    "choose_execution",
    "usable_cores",
]
