"""Numbers on a command line: `nan` is within every bound that it is merely compared with."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(
    "arguments",
    [
        ["engine", "build", "PACKAGE", "--budget", "nan"],
        ["eval", "PACKAGE", "--images", "x", "--annotations", "y", "--floor", "nan"],
        ["eval", "PACKAGE", "--images", "x", "--annotations", "y", "--score=-nan"],
        [
            "model",
            "quantize",
            "PACKAGE",
            "--calibration",
            "x",
            "--evaluate-on",
            "y",
            "-o",
            "z",
            "--max-drop",
            "nan",
        ],
        ["model", "import", "x.onnx", "--out", "z", "--floor", "nan"],
        ["doctor", "--timeout", "nan"],
        ["bench", "site.yaml", "--seconds", "nan"],
    ],
)
def test_nan_is_not_a_number(arguments: list[str], cli: Callable[..., Any]) -> None:
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("error: Invalid value for ")
