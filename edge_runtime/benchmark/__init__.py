"""The runtime measured against a bare inference loop in the same run, as pairs, on a noisy machine."""

from edge_runtime.benchmark.pairs import PairedRatio, measure_pairs
from edge_runtime.benchmark.report import BenchmarkReport, ModeReport, run_benchmark

__all__ = ["BenchmarkReport", "ModeReport", "PairedRatio", "measure_pairs", "run_benchmark"]
