"""Changes the state machine and the motion gate in each place, one at a time, and expects a test to fail.

    python tests/guard/mutants.py COPY [MODULE...]

COPY holds copies of what is changed and of the tests, as `make mutation` lays them out; a module is named as below
edge_runtime.guard, such as `look` or `motion_gate.judge`. mutmut makes the mutants: a
function and all its changed twins in one module, chosen by a variable. They are run here and not by mutmut, which
starts pytest anew for each and took more than an hour: the tests are collected once, and each mutant gets a fork of
that moment, which runs those tests that reach the changed function until one fails, the likeliest first.

It prints what each mutant changes that no test noticed, and leaves with 1 if there is one that
`KNOWN` does not explain.
"""

import ast
import contextlib
import difflib
import gc
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from mutmut.mutation import trampoline
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.state import state

SOURCES = "edge_runtime/guard"
LISTED = "coverage.ini"
"""In COPY: its lines that name modules below SOURCES name those that are changed."""

CPU_FACTOR, WAIT_FACTOR = 3, 4
"""A mutant hangs, which is noticed too, when its tests take so many times their processor time, or their time."""

PATIENCE_S = 5

_GUARD = "edge_runtime.guard"
_GATE = f"{_GUARD}.motion_gate"
_SAME_CODEC = "the name of an encoding has no case"
_AS_FALSE = "None is as false as False"
_PREPARED = "`prepare`, at once, sets it"
_EITHER_WAY = "what was not bound is not there to be taken away: the caller hears that it was not found"
_STARTED = "each start sets it before anybody reads it"
_ENDS = "what was killed ends, whether its end is waited for with a bound or without"
_WRITTEN_OVER = "the first write, at once, sets it"
_NO_DESCRIPTOR = "a descriptor below 0 is none, and 0 is taken in every process"
_SAME_LENGTH = "all are as long as the list of channels"
KNOWN: dict[str, str] = {
    f"{_GUARD}.block.x_shared_memory__mutmut_3": _NO_DESCRIPTOR,
    f"{_GUARD}.block.x_shared_memory__mutmut_28": "1 is F_SEAL_SEAL, which is among the seals anyway",
    f"{_GUARD}.block.x_shared_memory__mutmut_29": _NO_DESCRIPTOR,
    f"{_GUARD}.block.x_shared_memory__mutmut_30": _NO_DESCRIPTOR,
    f"{_GUARD}.block.x_attach__mutmut_5": "1 is PROT_READ, which is asked for anyway",
    f"{_GUARD}.block.x_attach__mutmut_12": "MAP_SHARED is what Python's mmap takes without a word",
    f"{_GUARD}.block.x_padded__mutmut_16": _SAME_CODEC,
    f"{_GUARD}.block.x_unpadded__mutmut_9": _SAME_CODEC,
    f"{_GUARD}.latch.xǁLatchFileǁ__init____mutmut_2": "no record equals either",
    f"{_GUARD}.latch.xǁLatchFileǁfind__mutmut_7": "either is too long",
    f"{_GUARD}.latch.x__encoded__mutmut_39": _SAME_CODEC,
    f"{_GUARD}.lease.xǁLeaseWriterǁ__init____mutmut_12": _AS_FALSE,
    f"{_GUARD}.lease.xǁLeaseWriterǁ__init____mutmut_29": _WRITTEN_OVER,
    f"{_GUARD}.lease.xǁLeaseWriterǁ__init____mutmut_30": _WRITTEN_OVER,
    f"{_GUARD}.lease.xǁLeaseWriterǁ_write__mutmut_22": "padding, which nobody reads",
    f"{_GUARD}.lease.xǁLeaseReaderǁ__init____mutmut_4": _AS_FALSE,
    f"{_GUARD}.lease.xǁLeaseReaderǁread__mutmut_8": "the first write has the number 1",
    f"{_GATE}.estop.xǁDescriptorInputǁ__init____mutmut_2": "whatever is not the sign for released is pressed",
    f"{_GATE}.estop.xǁDescriptorInputǁ__init____mutmut_3": "whatever is not the sign for released is pressed",
    f"{_GATE}.estop.xǁDescriptorInputǁreleased__mutmut_10": "it is only asked whether it is empty",
    f"{_GATE}.estop.xǁEmergencyStopǁlook__mutmut_22": _SAME_LENGTH,
    f"{_GATE}.estop.xǁEmergencyStopǁlook__mutmut_26": _SAME_LENGTH,
    f"{_GATE}.estop.xǁEmergencyStopǁlook__mutmut_27": _SAME_LENGTH,
    f"{_GATE}.limits.xǁ_Axisǁpassed__mutmut_8": "keeps one entry more, before which the search for the least stops",
    f"{_GATE}.limits.xǁ_Axisǁ_floor__mutmut_15": "the side is 1 or -1: to divide by it is to multiply",
    f"{_GATE}.outputs.xǁExecOutputǁ__init____mutmut_6": _STARTED,
    f"{_GATE}.outputs.xǁExecOutputǁ__init____mutmut_7": _STARTED,
    f"{_GATE}.outputs.xǁExecOutputǁclose__mutmut_5": "a nanosecond in a second",
    f"{_GATE}.outputs.xǁExecOutputǁclose__mutmut_6": _ENDS,
    f"{_GATE}.outputs.x__encoded__mutmut_3": _AS_FALSE,
    f"{_GATE}.verification.xǁVerificationǁ__init____mutmut_6": _STARTED,
    f"{_GATE}.verification.xǁVerificationǁ__init____mutmut_7": _STARTED,
    f"{_GATE}.verification.xǁVerificationǁ__init____mutmut_9": _STARTED,
    f"{_GATE}.verification.xǁVerificationǁ__init____mutmut_10": _STARTED,
    f"{_GATE}.verification.xǁVerificationǁ__init____mutmut_11": _STARTED,
    f"{_GATE}.verification.xǁVerificationǁ__init____mutmut_12": _STARTED,
    f"{_GATE}.verification.xǁVerificationǁclose__mutmut_2": _ENDS,
    f"{_GATE}.verification.xǁVerificationǁ_end__mutmut_4": _AS_FALSE,
    **{f"{_GUARD}.slot.xǁSlotReaderǁ__init____mutmut_{at}": _PREPARED for at in (12, 13, 16, 17, 18, 19, 20)},
    f"{_GUARD}.slot.xǁSlotReaderǁprepare__mutmut_2": "no nonce equals either",
    f"{_GUARD}.slot.xǁSlotReaderǁchallenge__mutmut_6": "the order of random bytes",
    f"{_GUARD}.slot.xǁSlotReaderǁchallenge__mutmut_11": "a random bit less of 63",
    f"{_GUARD}.slot.xǁSlotReaderǁ_fault__mutmut_17": "a beat with the number of the last one was judged before",
    f"{_GUARD}.slot.x__beat__mutmut_31": "a stage is always bytes",
    f"{_GUARD}.slot.x__beat__mutmut_34": "a stage is always bytes",
    f"{_GUARD}.starving.x_tasks_of__mutmut_9": "the kernel writes digits, the same in each encoding",
    f"{_GUARD}.starving.x_tasks_of__mutmut_14": _SAME_CODEC,
    f"{_GUARD}.starving.x_tasks_of__mutmut_15": "UTF-8 is the encoding of the machine",
    f"{_GUARD}.starving.x_tasks_of__mutmut_17": "UTF-8 is the encoding of the machine",
    f"{_GUARD}.starving.x_tasks_of__mutmut_23": _SAME_CODEC,
    f"{_GATE}.wiring.x_listen__mutmut_20": _EITHER_WAY,
    f"{_GATE}.wiring.x_listen__mutmut_21": _EITHER_WAY,
    f"{_GATE}.wiring.x_listen__mutmut_3": "a letter more of a name that is changed at once",
    f"{_GATE}.proposals.x__encoded__mutmut_3": _AS_FALSE,
}
"""Mutants that nobody can tell from the original, and why; also in docs/decisions."""


def make(copy: Path, modules: list[str]) -> list[str]:
    """Put all twins into the modules of the copy, or into those that are named; the names of the mutants."""
    names: list[str] = []
    for listed in (copy / LISTED).read_text(encoding="utf-8").split():
        path = copy / listed
        if not listed.startswith(SOURCES):
            continue
        if modules and ".".join(path.relative_to(copy / SOURCES).with_suffix("").parts) not in modules:
            continue
        mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
        path.write_text(mutated.code, encoding="utf-8")
        module = ".".join(path.relative_to(copy).with_suffix("").parts)
        names += [f"{module}.{name}" for name in mutated.mutant_names]
    return names


class Loop:
    """Instead of pytest's own loop: the tests as they are once, then once per mutant until one fails."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.survivors: list[str] = []
        self.hung: list[str] = []
        self._failed = False
        self._noticed: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        self._reach: defaultdict[str, list[pytest.Item]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        reached = state()._stats
        took: dict[pytest.Item, float] = {}
        lasted: dict[pytest.Item, float] = {}
        os.environ["MUTANT_UNDER_TEST"] = "stats"  # the original, and it says which functions were called
        # Chance must not decide whether a mutant is noticed, so properties do not take part.
        for item in (one for one in session.items if not _is_property(one)):
            began, busy = time.monotonic(), time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            took[item], lasted[item] = time.process_time() - busy, time.monotonic() - began
            if self._failed:
                sys.exit(f"{item.nodeid} fails without any change")
            for function in reached:
                self._reach[function].append(item)
            reached.clear()
        for items in self._reach.values():
            items.sort(key=lambda item: lasted[item])
        gc.freeze()  # a collection in a child would copy all pages
        gc.disable()
        for number, name in enumerate(self.names):
            if number % 100 == 0:
                print(f"{number} of {len(self.names)} mutants, {len(self.survivors)} not noticed", flush=True)
            reach = self._reach[name.rpartition("__mutmut_")[0]]
            cpu_s = CPU_FACTOR * sum(took[item] for item in reach)
            wait_s = WAIT_FACTOR * sum(lasted[item] for item in reach)
            self._try(name, PATIENCE_S + int(cpu_s), PATIENCE_S + int(wait_s))
        return True

    def _try(self, name: str, limit_s: int, wait_s: int) -> None:
        function = name.rpartition("__mutmut_")[0]
        first = self._noticed[function]
        order = [*first, *(item for item in self._reach[function] if item not in first)]
        read, write = os.pipe()
        child = os.fork()  # noqa: TID251 no thread and no GPU here, and the collected tests are what is wanted
        if child == 0:
            os.setpgid(0, 0)
            trampoline.get_mutant_under_test = lambda: (
                name
            )  # the environment, asked at each call, took most time
            os.environ["MUTANT_UNDER_TEST"] = name  # for the processes that a test starts
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
            signal.alarm(wait_s)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            for index, item in enumerate(order):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if self._failed:
                    os.write(write, index.to_bytes(4, "big"))
                    os._exit(1)
            os._exit(0)
        os.close(write)
        told = os.read(read, 4)
        os.close(read)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a test of it started, and could not end
        if told:
            self._noticed[function] = [order[int.from_bytes(told, "big")], *first][:8]
        elif status == 0:
            self.survivors.append(name)
            print(f"{name}: {KNOWN.get(name, 'no test noticed it')}\n{difference(name)}\n", flush=True)
        else:
            self.hung.append(name)


def _is_property(item: pytest.Item) -> bool:
    """Whether hypothesis makes up what a test is given."""
    machine = getattr(getattr(item, "cls", None), "settings", None)  # of a state machine that it drives
    return machine is not None or hasattr(getattr(item, "obj", None), "hypothesis")


def difference(name: str) -> str:
    """What a mutant changes."""
    module, _, twin = name.rpartition(".")
    tree = ast.parse(Path(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
    found = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    texts: list[list[str]] = []
    for function in (twin.rpartition("__mutmut_")[0] + "__mutmut_orig", twin):
        found[function].name = "changed"
        texts.append(ast.unparse(found[function]).splitlines())
    before, after = texts
    return "\n".join(line for line in difflib.ndiff(before, after) if line[0] in "-+")


def main() -> int:
    """See above."""
    copy = Path(sys.argv[1]).resolve()
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    names = make(copy, sys.argv[2:])
    loop = Loop(names)
    arguments: list[Any] = [
        "-p",
        "no:terminal",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "-m",
        "not trial",
        "tests/guard",
    ]
    code = pytest.main(arguments, plugins=[loop])
    if code:
        return int(code)
    unknown = [name for name in loop.survivors if name not in KNOWN]
    print(
        f"{len(names)} mutants, {len(names) - len(loop.survivors)} noticed ({len(loop.hung)} by their hanging "
        f"or end), {len(loop.survivors) - len(unknown)} explained, {len(unknown)} unexplained"
    )
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
