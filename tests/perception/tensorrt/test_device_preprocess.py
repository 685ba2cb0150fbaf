"""Pictures prepared by the backend's thread with the kernel, against the CPU path, on the double."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest

from edge_runtime.errors import BackendError, ImageError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.base import DevicePreparing, Tensor
from edge_runtime.perception.backends.tensorrt import CudaError, OutOfDeviceMemory, TensorRtBackend, worker
from edge_runtime.perception.backends.tensorrt.device_preprocess import DevicePreprocessor
from edge_runtime.perception.letterbox import fit
from edge_runtime.perception.preprocess import Preprocessor
from edge_runtime.sources.frame import Image
from tests.rigs.small_engines import counting_allocations, doubling, opened
from tests.rigs.tensorrt_double import RELEASES, Double, Faults, build_engine, installed

SPEC = InputSpec(name="images", height=48, width=64, scale=1 / 255, batch=3)
SHAPES: dict[str, Any] = {"images": ((1, 3, 48, 64), (1, 3, 48, 64), (3, 3, 48, 64))}


def picture(height: int, width: int, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def engine_of(double: Double) -> bytes:
    return build_engine(double, doubling(("batch", 3, 48, 64)), SHAPES)


def on_the_cpu(image: Image, spec: InputSpec = SPEC) -> Tensor:
    preprocessor = Preprocessor(spec)
    out = preprocessor.allocate(1)
    preprocessor.fill(image, out, 0, None)
    return out


def preparing(backend: TensorRtBackend, spec: InputSpec = SPEC) -> DevicePreprocessor:
    preprocessor = backend.preprocessor(spec)
    assert preprocessor is not None
    return preprocessor


@pytest.fixture
def orin() -> Iterator[Double]:
    with installed("10.3.0") as double:
        yield double
        assert double.ledger().empty, str(double.ledger())


@pytest.mark.parametrize("mapped", [False, True], ids=["copied", "mapped"])
@pytest.mark.parametrize("release", RELEASES)
def test_frames_become_what_the_cpu_makes_of_them(release: str, mapped: bool) -> None:
    with installed(release) as double:
        backend = opened(double, engine_of(double), input_spec=SPEC, mapped=mapped)
        assert isinstance(backend, DevicePreparing)
        assert backend.facts.preparation == "gpu"
        assert backend.facts.note is None
        preprocessor = preparing(backend)
        out = preprocessor.allocate(3)
        # larger, smaller, larger again and turned: memory grows and is used again
        for run, (height, width) in enumerate([(30, 40), (90, 70), (20, 20), (200, 300), (48, 64)]):
            images = [picture(height, width + index, seed=run * 3 + index) for index in range(3)]
            images[1] = np.rot90(images[1])
            for index, image in enumerate(images):
                box = preprocessor.fill(image, out, index, None)
                assert box == fit(SPEC, image.shape[0], image.shape[1])
            same = backend.infer({"images": out[: 1 + run % 3]}, 30)[1]
            for index in range(1 + run % 3):
                difference = np.abs(same[index] - on_the_cpu(images[index])[0])
                assert difference.max() <= 1 / 255 + 1e-6
        backend.close()
        assert double.ledger().empty


def test_a_decoders_picture_becomes_what_its_colours_make(orin: Double) -> None:
    backend = opened(orin, engine_of(orin), input_spec=SPEC)
    preprocessor = preparing(backend)
    out = preprocessor.allocate(1)
    image = cv2.resize(picture(6, 8), (80, 60), interpolation=cv2.INTER_CUBIC)
    planes = cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420).reshape(-1)
    luma, chroma = planes[: 60 * 80], planes[60 * 80 :].reshape(2, -1)
    nv12 = np.concatenate([luma, chroma.T.reshape(-1)]).reshape(90, 80)
    assert preprocessor.fill_nv12(nv12, out, 0) == fit(SPEC, 60, 80)
    same = backend.infer({"images": out}, 30)[1]
    wanted = on_the_cpu(np.ascontiguousarray(cv2.cvtColor(nv12, cv2.COLOR_YUV2BGR_NV12)))
    assert (
        np.abs(same - wanted).max() <= 2 / 255
    )  # the colour is rounded before the resize there, after it here
    wrongs: list[Any] = [nv12[:89], nv12[:, :79], nv12.astype(np.int16), picture(4, 4)]
    for wrong in wrongs:
        with pytest.raises(ImageError, match="NV12"):
            preprocessor.fill_nv12(wrong, out, 0)
    backend.close()


def test_both_kinds_of_input_are_taken_by_one_backend(orin: Double) -> None:
    """Golden vectors come as tensors, frames as pictures."""
    backend = opened(orin, engine_of(orin), input_spec=SPEC)
    preprocessor = preparing(backend)
    out = preprocessor.allocate(1)
    for seed in range(4):
        image = picture(50, 60, seed)
        preprocessor.fill(image, out, 0, None)
        from_picture = backend.infer({"images": out}, 30)[1]
        from_tensor = backend.infer({"images": on_the_cpu(image)}, 30)[1]
        assert np.abs(from_picture - from_tensor).max() <= 1 / 255 + 1e-6
    backend.close()


def test_pictures_of_another_input_stay_on_the_cpu(orin: Double) -> None:
    backend = opened(orin, engine_of(orin), input_spec=SPEC)
    assert backend.preprocessor(SPEC.model_copy(update={"color": "bgr"})) is None
    backend.close()
    backend = opened(orin, engine_of(orin), input_spec=SPEC, prepare="cpu")
    assert backend.preprocessor(SPEC) is None
    assert (backend.facts.preparation, backend.facts.note) == ("cpu", None)
    backend.close()


@pytest.mark.parametrize(
    "change", [{"name": "pixels"}, {"height": 96}, {"dtype": "float16"}, {"layout": "nhwc"}]
)
def test_an_input_that_the_engine_does_not_have_is_not_written(orin: Double, change: dict[str, Any]) -> None:
    other = SPEC.model_copy(update=change)
    backend = opened(orin, engine_of(orin), input_spec=other)
    assert backend.preprocessor(other) is None
    assert backend.facts.note is not None
    assert "the engine has no input like it" in backend.facts.note
    backend.close()


def test_a_kernel_that_does_not_compile_leaves_it_to_the_cpu_and_says_so(orin: Double) -> None:
    def open_without_compiler() -> Any:
        device = orin.open_cuda()

        def compile_(source: str, function: str) -> int:
            raise CudaError("NVRTC cannot be used: no libnvrtc.so.12")

        device.compile = compile_  # type: ignore[method-assign]
        return device

    backend = opened(orin, engine_of(orin), input_spec=SPEC, open_device=open_without_compiler)
    assert backend.preprocessor(SPEC) is None
    assert backend.facts.preparation == "cpu"
    assert backend.facts.note == "pictures are prepared on the CPU: NVRTC cannot be used: no libnvrtc.so.12"
    backend.close()


def test_a_picture_that_was_never_filled_is_refused(orin: Double) -> None:
    backend = opened(orin, engine_of(orin), input_spec=SPEC)
    with pytest.raises(BackendError, match="the picture was not taken over"):
        backend.infer({"images": preparing(backend).allocate(1)}, 30)
    backend.close()


def test_more_pictures_than_the_engine_takes_are_refused(orin: Double) -> None:
    backend = opened(orin, engine_of(orin), input_spec=SPEC)
    preprocessor = preparing(backend)
    out = preprocessor.allocate(4)
    for index in range(4):
        preprocessor.fill(picture(20, 20), out, index, None)
    with pytest.raises(BackendError, match="takes at most 3 pictures, not 4"):
        backend.infer({"images": out}, 30)
    assert len(backend.infer({"images": out[:3]}, 30)[0]) == 3
    backend.close()


@pytest.mark.parametrize("image", [np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3), np.float32)])
def test_what_is_no_picture_is_refused(orin: Double, image: Any) -> None:
    backend = opened(orin, engine_of(orin), input_spec=SPEC)
    preprocessor = preparing(backend)
    with pytest.raises(ImageError):
        preprocessor.fill(image, preprocessor.allocate(1), 0, None)
    backend.close()


def test_a_thread_that_prepares_outlives_the_model(orin: Double) -> None:
    """The lane's thread must not die, nor write into memory that is gone: the run says what is wrong."""
    backend = opened(orin, engine_of(orin), input_spec=SPEC)
    preprocessor = preparing(backend)
    out = preprocessor.allocate(2)
    preprocessor.fill(picture(20, 20), out, 0, None)
    backend.close()
    assert preprocessor.fill(picture(20, 20), out, 0, None) == fit(SPEC, 20, 20)
    assert preprocessor.fill(picture(90, 90), out, 1, None) == fit(SPEC, 90, 90)
    with pytest.raises(BackendError, match="closed"):
        backend.infer({"images": out}, 30)


@pytest.mark.timeout(600)
def test_memory_that_ends_anywhere_on_the_way_leaves_nothing() -> None:
    number = 1
    while True:
        with installed("10.3.0") as double:
            engine = engine_of(double)
            counted = counting_allocations(double, number)
            failed = False
            try:
                backend = opened(double, engine, input_spec=SPEC)
            except OutOfDeviceMemory:
                failed = True
            else:
                preprocessor = preparing(backend)
                out = preprocessor.allocate(2)
                for side in (20, 40, 30):
                    for index in range(2):
                        preprocessor.fill(picture(side, side), out, index, None)
                    try:
                        backend.infer({"images": out}, 30)
                    except BackendError:
                        failed = True
                backend.close()
            assert double.ledger().empty, f"allocation {number}: {double.ledger()}"
            if counted() < number:
                break
            assert failed, f"allocation {number} failed and nobody said so"
        number += 1
    assert number > 12


def test_a_lost_device_does_not_end_the_thread_that_prepares() -> None:
    with installed("10.3.0") as double:
        backend = opened(double, engine_of(double), input_spec=SPEC)
        preprocessor = preparing(backend)
        out = preprocessor.allocate(1)
        preprocessor.fill(picture(20, 20), out, 0, None)
        double.set_faults(Faults(lost_from=1))
        for side in (20, 90):
            preprocessor.fill(picture(side, side), out, 0, None)
            with pytest.raises(BackendError, match="the device is lost"):
                backend.infer({"images": out}, 30)
        backend.close()
        assert double.ledger().empty


def test_a_device_that_hangs_does_not_hold_the_thread_that_prepares(
    orin: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_CALL_PATIENCE_S", 0.1)
    backend = opened(orin, engine_of(orin), input_spec=SPEC)
    preprocessor = preparing(backend)
    out = preprocessor.allocate(1)
    preprocessor.fill(picture(20, 20), out, 0, None)
    orin.set_faults(Faults(hang_from=1, hang_seconds=300))
    ends: list[list[Tensor]] = []
    asking = threading.Thread(target=lambda: ends.append(backend.infer({"images": out.copy()}, 300)))
    asking.start()
    while not orin.device.count.calls.get("execution"):
        time.sleep(0.005)
    larger = preprocessor.allocate(1)
    assert preprocessor.fill(picture(90, 90), larger, 0, None) == fit(SPEC, 90, 90)
    orin.device.release()
    asking.join()
    assert len(ends) == 1
    with pytest.raises(BackendError, match="the picture was not taken over"):
        backend.infer({"images": larger}, 30)
    preprocessor.fill(picture(90, 90), larger, 0, None)
    assert len(backend.infer({"images": larger}, 30)) == 2
    backend.close()
