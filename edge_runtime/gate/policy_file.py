"""The policy file: read with every problem located, and watched, so that an edit takes effect without a restart.

A file that breaks while the device runs takes the policy away: everything is held until it can be read again. A
changed file is taken up once it has not changed for a moment, because a half-written one may be valid and say less.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config.problem import InvalidConfig
from edge_runtime.config.regular_file import NotRegularError, open_regular
from edge_runtime.config.sentences import findings
from edge_runtime.config.words import kind_of
from edge_runtime.document import Document, Problem, Unreadable, read_document
from edge_runtime.policy import Policy, policy_problems
from edge_runtime.policy.checks import Finding
from edge_runtime.protocol import Reason
from edge_runtime.telemetry import get_logger

MAX_FILE_BYTES = 256 * 1024

MAX_VALUES = 12_000
"""Keys and values of one file; 256 permits with all of their fields have 9,000. The gate waits while it is read."""

LOOK_EVERY_NS = NS_PER_S // 4
"""The file's state is looked at so often; a decision costs no system call."""

SETTLE_NS = NS_PER_S
"""A changed file must have been left alone for this long before it counts."""

START = "edge-runtime gate starter prints a policy to begin with"

_NAME_RULE = "is not a usable name: use 1 to 64 of a-z, 0-9, _, . and -, beginning with a letter or a digit"


def read_policy(path: Path | str) -> Policy:
    """Read and validate one policy file.

    Raises:
        InvalidConfig: it cannot be used; it lists every problem with its line.
    """
    file = str(path)
    try:
        document = read_document(_read(Path(path)), MAX_VALUES)
    except Unreadable as error:
        raise InvalidConfig(file, [error.problem]) from None
    if not isinstance(document.data, dict):
        said = "is empty" if document.data is None else f"must be a section, not {kind_of(document.data)}"
        raise InvalidConfig(file, [Problem(f"{said}; {START}")])
    found: list[Finding] = []
    policy = None
    try:
        policy = Policy.model_validate(document.data, context={"checked": True})
    except ValidationError as error:
        found += [_own_words(finding) for finding in findings(error, Policy, document.data, ())]
    found += policy_problems(document.data)
    problems = [*document.problems, *_locate(dict.fromkeys(found), document)]
    if problems or policy is None:
        raise InvalidConfig(file, sorted(problems, key=lambda problem: (problem.line or 0, problem.path)))
    return policy


def _own_words(finding: Finding) -> Finding:
    at, text = finding
    return (at, _NAME_RULE) if text.startswith("is not a usable name") else finding


def _locate(found: Iterable[Finding], document: Document) -> list[Problem]:
    return [Problem(text, at, document.line(at) if at else None) for at, text in found]


def _read(path: Path) -> str:
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise Unreadable(Problem(f"there is no such file; {START}")) from None
    except IsADirectoryError:
        raise Unreadable(Problem("is a folder; name the policy file in it")) from None
    except NotRegularError as error:
        raise Unreadable(Problem(f"is {error.kind}; name a policy file")) from None
    except (OSError, ValueError) as error:
        raise Unreadable(Problem(f"cannot be read: {getattr(error, 'strerror', None) or error}")) from None
    if len(raw) > MAX_FILE_BYTES:
        raise Unreadable(Problem(f"is larger than {MAX_FILE_BYTES // 1024} KiB: this is no policy file"))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable(Problem("is not UTF-8 text; save it as UTF-8", line=line)) from None


@dataclass(frozen=True, slots=True)
class InForce:
    """What decisions go by now.

    Attributes:
        policy: None where there is none; then everything is held.
        without: why there is none; meaningless beside a policy.
        trouble: every line of what is wrong with the file.
    """

    policy: Policy | None
    without: Reason = Reason.NO_POLICY
    trouble: tuple[str, ...] = ()


_Signature = tuple[int, int, int, int]


class PolicyFile:
    """One policy file, followed through its edits. Used from one thread.

    Args:
        path: of the file; it need not exist.
        clock: monotonic time.
        assigned: of a file that holds in its place wherever there is one: the policy that the fleet assigned.

    Attributes:
        own: the first of them, whichever holds.
    """

    def __init__(self, path: Path, clock: Clock, assigned: Path | None = None) -> None:
        self.own, self._assigned = path, assigned
        self._clock = clock
        self._log = get_logger()
        self._loaded: _Signature | None = None
        self._pending: tuple[_Signature, int] | None = None
        self._looked_ns = clock.monotonic_ns()
        self._now = self._take_up(self._signature())

    @property
    def path(self) -> Path:
        """The file that holds now, or that would if it were there."""
        return self.own if self._assigned is None or not self._assigned.exists() else self._assigned

    def in_force(self) -> InForce:
        """The policy that counts now."""
        now = self._clock.monotonic_ns()
        if now - self._looked_ns >= LOOK_EVERY_NS:
            self._looked_ns = now
            self._look(now)
        return self._now

    def _look(self, now_ns: int) -> None:
        signature = self._signature()
        if signature == self._loaded:
            self._pending = None
        elif signature is None or self._now.policy is None:
            self._now = self._take_up(signature)  # nothing to lose: gone, or there was none in force
        elif self._pending is None or self._pending[0] != signature:
            self._pending = (signature, now_ns)
        elif now_ns - self._pending[1] >= SETTLE_NS:
            self._now = self._take_up(signature)

    def _take_up(self, signature: _Signature | None) -> InForce:
        self._loaded, self._pending = signature, None
        if signature is None:
            self._log.warning("no policy: every event is held", write=str(self.path))
            return InForce(None, Reason.NO_POLICY)
        try:
            policy = read_policy(self.path)
        except InvalidConfig as error:
            lines = tuple(error.lines())
            self._log.error(
                "policy cannot be used: every event is held", problems=len(error.problems), first=lines[0]
            )
            return InForce(None, Reason.POLICY_UNREADABLE, lines)
        except Exception as error:  # noqa: BLE001 - a file that breaks its reader must not stop the gate, nor the camera
            self._log.error("policy cannot be read: every event is held", kind=type(error).__name__)
            return InForce(None, Reason.POLICY_UNREADABLE, (f"{self.path}: cannot be read as YAML",))
        self._log.info("policy in force", policy=policy.name, digest=policy.digest)
        return InForce(policy)

    def _signature(self) -> _Signature | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return (0, 0, 0, 0)  # there, but not to be read: reading it says why
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
