"""The check of ONNX Runtime's CUDA provider, with the CPU's in its place: that it compares, and what it refuses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.backends.onnxruntime import OnnxRuntimeBackend
from hil.gpu import onnxruntime_check
from hil.gpu.bench import Bench, Failed, NotPossible
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "models" / "centerface"


class Pretender(OnnxRuntimeBackend):
    """Computes on the CPU and says that it is a GPU; `off` is added to what it answers then."""

    off = 0.0

    def __init__(self, weights: Path, *, providers: Sequence[str] = ("cpu",), threads: int = 1) -> None:
        self.added = self.off if "cuda" in providers else 0.0
        super().__init__(weights, threads=threads)
        self.facts = replace(self.facts, effective=providers[0])

    def infer(self, feeds: Mapping[str, Tensor], timeout_s: float | None = None) -> list[Tensor]:
        return [output + np.float32(self.added) for output in super().infer(feeds, timeout_s)]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    monkeypatch.setattr(onnxruntime_check, "_require_provider", lambda: None)
    return Bench(tmp_path, PACKAGE)


@pytest.fixture
def pretending(monkeypatch: pytest.MonkeyPatch) -> type[Pretender]:
    kind = type("Pretender", (Pretender,), {})
    monkeypatch.setattr(onnxruntime_check, "OnnxRuntimeBackend", kind)
    monkeypatch.setattr(onnxruntime_check, "median_ms", lambda work, times: 1.0)
    return kind


def test_a_gpu_that_answers_as_the_cpu(bench: Bench, pretending: type[Pretender]) -> None:
    assert "the GPU finds what the CPU finds" in onnxruntime_check.check_onnxruntime(bench)
    assert bench.on_gpu
    assert bench.values["largest_difference"] == 0
    assert int(str(bench.values["detections"])) > 0


def test_a_gpu_that_answers_otherwise(bench: Bench, pretending: type[Pretender]) -> None:
    pretending.off = 0.2
    with pytest.raises(Failed, match="golden vector"):
        onnxruntime_check.check_onnxruntime(bench)


@pytest.mark.parametrize(("gpu", "outcome"), [(False, NotPossible), (True, Failed)])
def test_a_provider_that_gives_way_to_the_cpu(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, gpu: bool, outcome: type[Exception]
) -> None:
    monkeypatch.setattr(onnxruntime_check, "has_gpu", lambda: gpu)
    with pytest.raises(outcome, match="cuda was asked for but cpu runs the model"):
        onnxruntime_check.check_onnxruntime(bench)
    assert not bench.on_gpu


def test_a_package_that_does_not_open_is_said(tmp_path: Path) -> None:
    from hil.gpu.one import run_check

    result: Any = run_check("onnxruntime", tmp_path, tmp_path / "nowhere", 20, 30)
    assert result.status == "failed"
    assert "nowhere" in result.text
