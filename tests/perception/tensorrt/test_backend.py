"""The TensorRT backend on the double: values, shapes, threads, flags, and that nothing is left behind."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from edge_runtime.errors import BackendError
from edge_runtime.perception.backends.base import Tensor
from tests.rigs.small_engines import doubling, dynamic, opened, pictures, with_profiles
from tests.rigs.tensorrt_double import RELEASES, Double, DoubleCuda, build_engine, installed


@pytest.fixture(name="double", params=RELEASES)
def every_release(request: pytest.FixtureRequest) -> Iterator[Double]:
    with installed(request.param) as double:
        yield double
        assert double.ledger().empty, str(double.ledger())


@pytest.fixture
def orin() -> Iterator[Double]:
    with installed("10.3.0") as double:
        yield double
        assert double.ledger().empty, str(double.ledger())


def test_it_computes_and_says_what_it_is(double: Double) -> None:
    backend = opened(double)
    images = pictures()
    for _ in range(3):
        twice, same = backend.infer({"images": images}, 30)
        np.testing.assert_array_equal(twice, images * 2)
        np.testing.assert_array_equal(same, images)
    assert [(spec.name, spec.shape, spec.dtype) for spec in backend.inputs] == [
        ("images", (1, 3, 8, 8), np.dtype(np.float32))
    ]
    assert [spec.name for spec in backend.outputs] == ["twice", "same"]
    facts = backend.facts
    assert (facts.backend, facts.version, facts.effective) == ("tensorrt", double.version, "tensorrt")
    assert facts.degraded is None
    assert facts.device == f"{double.device.gpu.name}, double 1.0"
    assert backend.in_flight == 2
    backend.close()
    backend.close()


@pytest.mark.parametrize("dtype", ["float16", "int32", "int64"])
def test_tensors_keep_their_type(orin: Double, dtype: str) -> None:
    backend = opened(orin, build_engine(orin, doubling(dtype=dtype)))
    images = (pictures() * 100).astype(dtype)
    twice, same = backend.infer({"images": images}, 30)
    assert twice.dtype == same.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(twice, images * 2)
    backend.close()


def test_what_it_returns_is_the_callers(orin: Double) -> None:
    backend = opened(orin)
    first = backend.infer({"images": pictures(seed=1)}, 30)[0]
    for seed in range(2, 6):
        backend.infer({"images": pictures(seed=seed)}, 30)
    backend.close()
    np.testing.assert_array_equal(first, pictures(seed=1) * 2)


def test_a_profile_allows_its_batches(double: Double) -> None:
    backend = opened(double, dynamic(double))
    assert backend.inputs[0].shape == (None, 3, 8, 8)
    for batch in (1, 4, 2, 3, 3, 1):
        twice, same = backend.infer({"images": pictures(batch, seed=batch)}, 30)
        np.testing.assert_array_equal(twice, pictures(batch, seed=batch) * 2)
        assert same.shape == (batch, 3, 8, 8)
    with pytest.raises(BackendError, match="images is 5x3x8x8, but the engine takes at most 4x3x8x8"):
        backend.infer({"images": pictures(5)}, 30)
    backend.close()


def test_a_profile_is_changed_where_another_allows_the_batch(double: Double) -> None:
    ranges = ((6, 8, 8), (1, 1, 1), (2, 2, 3))
    backend = opened(double, with_profiles(double, [[(batch, 3, 8, 8) for batch in each] for each in ranges]))
    for batch in (1, 3, 8, 2, 6, 1, 1, 7):
        twice = backend.infer({"images": pictures(batch, seed=batch)}, 30)[0]
        np.testing.assert_array_equal(twice, pictures(batch, seed=batch) * 2)
    with pytest.raises(BackendError, match=r"6x3x8x8 to 8x3x8x8 or 1x3x8x8 to 1x3x8x8 or .* not 4x3x8x8"):
        backend.infer({"images": pictures(4)}, 30)
    backend.close()


def test_less_than_a_profile_allows_is_said(orin: Double) -> None:
    engine = dynamic(orin, {"images": ((2, 3, 8, 8), (2, 3, 8, 8), (4, 3, 8, 8))})
    backend = opened(orin, engine)
    with pytest.raises(BackendError, match="takes 2x3x8x8 to 4x3x8x8 for images, not 1x3x8x8"):
        backend.infer({"images": pictures(1)}, 30)
    assert len(backend.infer({"images": pictures(2)}, 30)[0]) == 2
    backend.close()


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, "takes images, not nothing"),
        ({"pixels": pictures()}, "takes images, not pixels"),
        ({"images": pictures(), "more": pictures()}, "takes images, not images, more"),
        ({"images": pictures().astype(np.float64)}, "images must be float32, not float64"),
        ({"images": pictures()[0]}, "images is 3x8x8, but the engine takes at most 1x3x8x8"),
        ({"images": pictures(shape=(1, 3, 8, 4))}, "takes 1x3x8x8 to 1x3x8x8 for images, not 1x3x8x4"),
    ],
)
def test_what_it_cannot_be_fed(orin: Double, feeds: dict[str, Tensor], words: str) -> None:
    backend = opened(orin)
    with pytest.raises(BackendError, match=words):
        backend.infer(feeds, 30)
    np.testing.assert_array_equal(backend.infer({"images": pictures()}, 30)[0], pictures() * 2)
    backend.close()


def test_an_input_may_lie_in_any_order(orin: Double) -> None:
    backend = opened(orin)
    images = np.asfortranarray(pictures())[:, ::-1]
    np.testing.assert_array_equal(backend.infer({"images": images}, 30)[0], images * 2)
    backend.close()


def test_no_copy_in_waits_for_a_network(orin: Double) -> None:
    """Only then does the copy in of a run overlap the network of the one before it."""
    waits: list[tuple[int, int]] = []
    streams: list[int] = []

    def watched() -> DoubleCuda:
        device = orin.open_cuda()
        create, wait = device.create_stream, device.wait_event

        def create_stream() -> int:
            streams.append(create())
            return streams[-1]

        def wait_event(stream: int, event: int) -> None:
            waits.append((stream, event))
            wait(stream, event)

        device.create_stream, device.wait_event = create_stream, wait_event  # type: ignore[method-assign]
        return device

    backend = opened(orin, open_device=watched)
    for seed in range(4):
        backend.infer({"images": pictures(seed=seed)}, 30)
    backend.close()
    copies_in, network, copies_out = streams
    assert {stream for stream, _ in waits} == {network, copies_out}
    assert copies_in not in {stream for stream, _ in waits}
    assert len({event for _, event in waits}) == 4, "each place has events of its own"


@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_threads_get_their_own_answers(orin: Double, in_flight: int) -> None:
    backend = opened(orin, dynamic(orin), in_flight=in_flight)
    wrong: list[tuple[int, int]] = []

    def ask(thread: int) -> None:
        for run in range(40):
            images = pictures(1 + (thread + run) % 4, seed=thread * 100 + run)
            twice, same = backend.infer({"images": images}, 60)
            if not (np.array_equal(twice, images * 2) and np.array_equal(same, images)):
                wrong.append((thread, run))

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    backend.close()


@pytest.mark.parametrize(
    "options", [{"cuda_graphs": True}, {"mapped": True}, {"cuda_graphs": True, "mapped": True}]
)
def test_flags_change_no_value(double: Double, options: dict[str, bool]) -> None:
    backend = opened(double, dynamic(double), **options)
    for run in range(12):
        images = pictures(1 + run % 3, seed=run)
        np.testing.assert_array_equal(backend.infer({"images": images}, 30)[0], images * 2)
    backend.close()


def test_each_graph_has_a_context_of_its_own(orin: Double) -> None:
    backend = opened(orin, cuda_graphs=True)
    for run in range(6):  # two places: plain, captured, then twice as a graph
        backend.infer({"images": pictures(seed=run)}, 30)
    assert orin.ledger().graphs == 2
    contexts = [a for a in orin.ledger().device if "context" in a.owner.lower()]
    assert len(contexts) == 3, [a.owner for a in orin.ledger().device]
    backend.close()


def test_no_run_at_once_is_refused(orin: Double) -> None:
    with pytest.raises(BackendError, match="in_flight is 0"):
        opened(orin, in_flight=0)


def test_a_closed_model_says_so(orin: Double) -> None:
    backend = opened(orin)
    backend.close()
    with pytest.raises(BackendError, match="cars: the model is closed: load it again"):
        backend.infer({"images": pictures()}, 30)


@pytest.mark.timeout(600)
def test_a_thousand_loads_leave_nothing(orin: Double) -> None:
    engine = build_engine(orin, doubling())
    threads = threading.active_count()
    for run in range(1000):
        backend = opened(orin, engine)
        backend.infer({"images": pictures(seed=run)}, 30)
        backend.close()
        assert orin.ledger().empty, f"after {run + 1} loads: {orin.ledger()}"
    assert threading.active_count() == threads
