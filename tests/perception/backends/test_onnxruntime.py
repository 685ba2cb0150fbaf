"""The ONNX Runtime backend on real models: providers asserted, failures are typed, runs can be cancelled."""

import multiprocessing
import threading
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.errors import BackendError
from edge_runtime.perception.backends import InferenceTimeout, load_backend


@pytest.fixture(scope="module")
def yolox(onnx_models: Path) -> Path:
    return onnx_models / "yolox_nano_coco_416.onnx"


def picture(side: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 255, (1, 3, side, side)).astype(np.float32)


def test_runs_and_says_what_runs_it(yolox: Path) -> None:
    backend = load_backend(yolox, threads=1)
    assert backend.facts.effective == "cpu"
    assert backend.facts.degraded is None
    assert [(spec.name, spec.shape) for spec in backend.inputs] == [("images", (1, 3, 416, 416))]
    (output,) = backend.infer({"images": picture(416)})
    assert output.shape == (1, 3549, 85)
    assert np.isfinite(output).all()
    backend.close()
    backend.close()


def test_silent_fallback_to_the_cpu_is_a_degraded_fact(yolox: Path) -> None:
    backend = load_backend(yolox, providers=("cuda", "cpu"))
    assert backend.facts.effective == "cpu"
    assert backend.facts.degraded is not None
    assert "cuda was asked for but cpu runs the model" in backend.facts.degraded
    backend.close()


@pytest.mark.parametrize("providers", [("cuda", "cpu"), ("cuda",), ("cpu",)])
def test_require_gpu_refuses_the_cpu(yolox: Path, providers: tuple[str, ...]) -> None:
    with pytest.raises(BackendError, match="require_gpu"):
        load_backend(yolox, providers=providers, require_gpu=True)


def test_unknown_provider_names_the_choices(yolox: Path) -> None:
    with pytest.raises(BackendError, match="choose from cpu, cuda"):
        load_backend(yolox, providers=("npu",))


@pytest.mark.parametrize("content", [b"", b"<!DOCTYPE html><html></html>", b"\x08\x07\x12\x07pytorch"])
def test_what_is_not_a_model_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(BackendError, match=r"broken\.onnx does not load") as caught:
        load_backend(path)
    assert "\n" not in str(caught.value)


def test_graph_that_cannot_run_its_declared_size_is_found_by_the_warm_up(onnx_models: Path) -> None:
    with pytest.raises(BackendError, match="inference failed"):
        load_backend(onnx_models / "yolov10n_coco_int8_declares320_runs640.onnx")


def test_wrong_feed_is_a_typed_error(yolox: Path) -> None:
    backend = load_backend(yolox)
    with pytest.raises(BackendError, match="inference failed"):
        backend.infer({"images": picture(320)})
    backend.close()


def test_a_run_past_its_deadline_is_cancelled_and_the_next_one_works(onnx_models: Path) -> None:
    backend = load_backend(onnx_models / "yolov8n_coco_int8_640.onnx")
    feeds = {"images": picture(640) / 255}
    with pytest.raises(InferenceTimeout, match="did not answer within"):
        backend.infer(feeds, timeout_s=0.0001)
    assert backend.infer(feeds, timeout_s=60)[0].shape == (1, 84, 8400)
    backend.close()


def test_parallel_runs_share_weights_and_agree(yolox: Path) -> None:
    backend = load_backend(yolox)
    assert backend.in_flight is None
    inputs = [picture(416, seed) for seed in range(4)]
    alone = [backend.infer({"images": x})[0] for x in inputs]
    together: dict[int, np.ndarray] = {}

    def run(index: int) -> None:
        together[index] = backend.infer({"images": inputs[index]}, timeout_s=60)[0]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, expected in enumerate(alone):
        np.testing.assert_allclose(together[index], expected, rtol=1e-5, atol=1e-5)
    backend.close()


def _use_in_child(backend: object, pipe: object) -> None:
    try:
        backend.infer({"images": picture(416)})  # type: ignore[attr-defined]
        pipe.send("ran")  # type: ignore[attr-defined]
    except BackendError as error:
        pipe.send(str(error))  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_use_after_fork_is_refused_before_touching_the_session(yolox: Path) -> None:
    backend = load_backend(yolox)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_use_in_child, args=(backend, theirs))
    child.start()
    assert ours.poll(20)
    assert "another process" in ours.recv()
    child.join()
    backend.close()
