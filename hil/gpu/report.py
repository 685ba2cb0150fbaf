"""What the GPU checks found: one record for each check, a table for people, JSON for machines, one exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Status = Literal["passed", "failed", "not possible"]
Value = str | int | float | bool | None

DONE: Final = 0
FAILED: Final = 1
NOTHING_ON_A_GPU: Final = 3
"""2 is left to the command line, as everywhere in this project."""

KERNEL: Final = "kernel"
"""The check that has to run on a GPU for anything to be said about one."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one check.

    Attributes:
        check: its name.
        status: whether it held; `not possible` where a part or the GPU is missing.
        text: what was seen, or why it failed or was not possible, in one sentence.
        on_gpu: whether anything of it ran on a GPU.
        seconds: that it took.
        values: what was measured, with the unit in the name.
    """

    check: str
    status: Status
    text: str
    on_gpu: bool = False
    seconds: float = 0.0
    values: Mapping[str, Value] = field(default_factory=dict)


def exit_code(results: Sequence[Result]) -> int:
    """0 where nothing failed and the kernel ran on a GPU, 1 where something failed, else 3."""
    if any(result.status == "failed" for result in results):
        return FAILED
    ran = any(result.check == KERNEL and result.status == "passed" and result.on_gpu for result in results)
    return DONE if ran else NOTHING_ON_A_GPU


def verdict(results: Sequence[Result]) -> str:
    """The whole in one sentence."""
    failed = [result.check for result in results if result.status == "failed"]
    on_gpu = [result.check for result in results if result.on_gpu]
    missing = [result.check for result in results if result.status == "not possible"]
    if failed:
        return f"failed: {', '.join(failed)}"
    if not on_gpu:
        return "nothing ran on a GPU: this run says nothing about one"
    if exit_code(results) != DONE:
        return "the kernel did not run on a GPU: this run does not count"
    left = f"; not possible here: {', '.join(missing)}" if missing else ""
    return f"passed on a GPU: {', '.join(on_gpu)}{left}"


def table(results: Sequence[Result]) -> str:
    """A line for each check, and below it what was measured."""
    width = max(len(result.check) for result in results)
    lines = []
    for result in results:
        where = "on a GPU" if result.on_gpu else "no GPU"
        head = f"{result.check:<{width}}  {result.status:<12}  {where:<8}  {result.seconds:6.1f} s"
        lines.append(f"{head}  {result.text}")
        lines += [f"{'':<{width}}    {name} = {value}" for name, value in result.values.items()]
    return "\n".join([*lines, "", verdict(results)])


def as_json(results: Sequence[Result], machine: Mapping[str, Value]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "version": 1,
        "machine": dict(machine),
        "checks": [
            {
                "check": result.check,
                "status": result.status,
                "text": result.text,
                "on_gpu": result.on_gpu,
                "seconds": round(result.seconds, 1),
                "values": dict(result.values),
            }
            for result in results
        ],
        "verdict": verdict(results),
        "exit_code": exit_code(results),
    }
