"""What follows from the facts: one sentence each, with what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "note", "warning", "error"]

PARTS = ("machine", "gpu", "tensorrt", "onnxruntime", "video", "device", "models")
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One of them.

    Attributes:
        severity: `error` makes the doctor fail: the configuration, or any model at all, needs what is missing.
        part: one of `PARTS`.
        text: one sentence.
    """

    severity: Severity
    part: str
    text: str


def exit_code(findings: Iterable[Finding]) -> int:
    """1 where anything is an error, else 0."""
    return int(any(finding.severity == "error" for finding in findings))
