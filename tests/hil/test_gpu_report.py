"""What the GPU checks found becomes a table, JSON and an exit code that cannot be taken for more than it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from hil.gpu.bench import growth, has_gpu
from hil.gpu.events_check import first_difference
from hil.gpu.plan import CHECKS, TOTAL_S
from hil.gpu.report import KERNEL, Result, as_json, exit_code, table, verdict

RAN = Result(KERNEL, "passed", "the same", on_gpu=True, seconds=2.0, values={"worst_levels": 1.0})
MISSING = Result("engine", "not possible", "TensorRT is not installed")
BROKEN = Result("swaps", "failed", "the process grew by 900 MiB", on_gpu=True)


@pytest.mark.parametrize(
    ("results", "code", "words"),
    [
        ([RAN], 0, "passed on a GPU: kernel"),
        ([RAN, MISSING], 0, "passed on a GPU: kernel; not possible here: engine"),
        ([RAN, BROKEN], 1, "failed: swaps"),
        ([MISSING], 3, "nothing ran on a GPU"),
        ([Result(KERNEL, "not possible", "no GPU"), MISSING], 3, "nothing ran on a GPU"),
        # Another check on a GPU is no kernel on a GPU, and a kernel that ran elsewhere is none either.
        ([Result("onnxruntime", "passed", "the same", on_gpu=True)], 3, "the kernel did not run on a GPU"),
        ([Result(KERNEL, "passed", "the same", on_gpu=False)], 3, "nothing ran on a GPU"),
        ([Result(KERNEL, "failed", "no", on_gpu=False)], 1, "failed: kernel"),
    ],
)
def test_the_exit_code_and_the_verdict_say_the_same(results: list[Result], code: int, words: str) -> None:
    assert exit_code(results) == code
    assert words in verdict(results)


def test_the_table_has_a_line_for_each_check_and_each_number() -> None:
    lines = table([RAN, MISSING]).splitlines()
    assert lines[0].split() == ["kernel", "passed", "on", "a", "GPU", "2.0", "s", "the", "same"]
    assert lines[1].strip() == "worst_levels = 1.0"
    assert lines[2].split()[:5] == ["engine", "not", "possible", "no", "GPU"]
    assert lines[-1] == verdict([RAN, MISSING])


def test_the_json_holds_what_the_table_does() -> None:
    report = json.loads(json.dumps(as_json([RAN, MISSING], {"cores": 8})))
    assert report["machine"] == {"cores": 8}
    assert report["exit_code"] == 0
    assert [check["status"] for check in report["checks"]] == ["passed", "not possible"]
    assert report["checks"][0]["values"] == {"worst_levels": 1.0}


def test_all_checks_together_take_less_than_ten_minutes() -> None:
    assert TOTAL_S < 600
    assert all(check.limit_s < TOTAL_S for check in CHECKS.values())
    assert KERNEL in CHECKS


def test_a_leak_shows_as_growth_and_noise_does_not() -> None:
    assert growth([100 + 5 * step for step in range(1000)]) == 4050
    assert growth([1000 + step % 7 for step in range(1000)]) == 0
    # What a process takes once, at the beginning, is no leak.
    assert growth([0] * 50 + [900] * 950) == 0


def test_a_gpu_shows_in_the_device_folder(tmp_path: Path) -> None:
    assert not has_gpu(tmp_path)
    (tmp_path / "nvhost-gpu").touch()
    assert has_gpu(tmp_path)


def event(rule: str, at: float, **more: Any) -> dict[str, Any]:
    moments = {"started": {"media_s": at - 0.5}, "at": {"media_s": at}}
    return {
        "camera": "cabin",
        "rule": rule,
        "kind": "zone",
        "state": "ended",
        **moments,
        "id": object(),
        **more,
    }


def test_two_runs_with_the_same_events_do_not_differ() -> None:
    ours = [event("head", 2.77), event("driver", 0.53)]
    theirs = [event("driver", 0.5), event("head", 2.77)]  # a frame earlier, written in another order
    assert first_difference(ours, theirs) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ([event("driver", 0.5)], [], "only TensorRT saw driver ended at 0.50 s"),
        ([], [event("driver", 0.5)], "only the CPU saw driver ended at 0.50 s"),
        (
            [event("driver", 0.5)],
            [event("head", 0.5)],
            "TensorRT saw driver ended .* where the CPU saw head ended",
        ),
        ([event("driver", 0.5)], [event("driver", 0.7)], "driver ended at 0.50 s came 0.200 s apart"),
        (
            [event("line", 1.0, direction="enter")],
            [event("line", 1.0, direction="leave")],
            "TensorRT saw line ended enter",
        ),
    ],
)
def test_the_first_event_that_differs_is_named(
    ours: list[dict[str, Any]], theirs: list[dict[str, Any]], words: str
) -> None:
    with pytest.raises(AssertionError, match=words):
        assert first_difference(ours, theirs) is None, first_difference(ours, theirs)
