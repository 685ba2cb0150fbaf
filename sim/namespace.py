"""A network namespace for a device, with one link to this machine whose speed and state are the kernel's.

    with Namespace() as namespace, NamespaceNetwork(server.broker, namespace) as network:
        subprocess.Popen(network.within(["edge-runtime", "run", ...]))
        network.cut()

It needs root and iproute2. `tc` limits bandwidth with a token bucket (tbf); netem is missing in many kernels, so
what is late or lost is still made by the proxy at the server's end of the link.
"""

import contextlib
import ctypes
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from edge_runtime.clock import Clock
from edge_runtime.errors import EdgeRuntimeError
from sim.network import Impairment, Network

_PREFIX = "edge-sim"
_CLONE_NEWNET = 0x40000000
_INSIDE = "uplink0"
_COMMAND_S = 20.0
_BURST_BYTES = 16_384
"""Of the token bucket: several packets, or it lets nothing through at all."""

_QUEUE_S = 0.4
"""What waits longer in front of the bucket is dropped, as a modem does."""


class NoNamespace(EdgeRuntimeError):
    """This machine lets us make no network namespace; the text says what is missing."""


class Namespace:
    """One namespace, and a link between it and ours.

    Attributes:
        name: of the namespace.
        here, there: addresses of the two ends; nothing else is reachable from inside, but for its own loopback.

    Raises:
        NoNamespace: it cannot be made here.
    """

    def __init__(self) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None:
            raise NoNamespace("a network namespace needs root and iproute2: apt-get install iproute2")
        _clear_away()
        number = random.SystemRandom().randrange(1 << 15)
        self.name = f"{_PREFIX}-{os.getpid()}-{number:x}"
        self._link = f"ev{os.getpid() % 0xFFFFF:x}{number:x}"[:15]
        first = (198 << 24) + (18 << 16) + 4 * number  # 198.18.0.0/15 is for tests of networks (RFC 2544)
        self.here, self.there = (".".join(str(b) for b in (first + n).to_bytes(4, "big")) for n in (1, 2))
        _run("ip", "netns", "add", self.name)
        try:
            self._connect()
        except NoNamespace:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> None:
        inside = ("ip", "-netns", self.name)
        _run("ip", "link", "add", self._link, "type", "veth", "peer", "name", _INSIDE, "netns", self.name)
        _run("ip", "addr", "add", f"{self.here}/30", "dev", self._link)
        _run("ip", "link", "set", self._link, "up")
        _run(*inside, "addr", "add", f"{self.there}/30", "dev", _INSIDE)
        _run(*inside, "link", "set", _INSIDE, "up")
        _run(*inside, "link", "set", "lo", "up")

    def within(self, arguments: Sequence[str]) -> list[str]:
        """The command line of a program that runs inside; it keeps its process id."""
        return [shutil.which("ip") or "ip", "netns", "exec", self.name, *arguments]

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Have this thread make its sockets inside; those that it has stay where they are.

        Raises:
            NoNamespace: it is gone.
        """
        with Path("/proc/thread-self/ns/net").open() as ours:
            _enter(Path("/run/netns") / self.name)
            try:
                yield
            finally:
                _set(ours.fileno())

    def pull(self) -> None:
        """Take the far end of the link away: the device sees a cable without a carrier, and keeps its address."""
        _run("ip", "link", "set", self._link, "down")

    def plug(self) -> None:
        """Put it back."""
        _run("ip", "link", "set", self._link, "up")

    def limit(self, bytes_per_s: float | None) -> None:
        """Let so much through each way; None is as much as the machine can."""
        for command in (("tc",), ("tc", "-netns", self.name)):
            device = self._link if command == ("tc",) else _INSIDE
            if bytes_per_s is None:
                with contextlib.suppress(NoNamespace):  # there was none
                    _run(*command, "qdisc", "del", "dev", device, "root")
            else:
                rate = ("rate", f"{max(8, round(8 * bytes_per_s))}bit", "burst", f"{_BURST_BYTES}b")
                late = ("latency", f"{_QUEUE_S * 1000:.0f}ms")
                _run(*command, "qdisc", "replace", "dev", device, "root", "tbf", *rate, *late)

    def counters(self) -> str:
        """What the kernel counts of the end on this side, as `tc -s qdisc` prints it."""
        return _run("tc", "-s", "qdisc", "show", "dev", self._link)

    def close(self) -> None:
        """Take it away, and the link with it."""
        with contextlib.suppress(NoNamespace):
            _run("ip", "netns", "delete", self.name)
        with contextlib.suppress(NoNamespace):  # it goes with the namespace, but only once that is empty
            _run("ip", "link", "delete", self._link)


class NamespaceNetwork(Network):
    """The same network as on loopback, between a namespace and a server of this machine.

    A cut, a freeze and the bandwidth are the kernel's: packets are gone, nobody is told, TCP finds out by itself.
    A delay, a loss and a portal are those of `Network`, at the server's end of the link.

    Args:
        target: host and port of the server, on loopback.
        namespace: of the device.
        port: to listen at; 0 for any. What a certificate or a record names needs its own.
        seed, clock: as `Network`.
    """

    def __init__(
        self,
        target: tuple[str, int],
        namespace: Namespace,
        port: int = 0,
        seed: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self._namespace = namespace
        super().__init__(target, seed, clock, (namespace.here, port))

    def within(self, arguments: Sequence[str]) -> list[str]:
        """As `Namespace.within`."""
        return self._namespace.within(arguments)

    def cut(self) -> None:
        """Pull the cable: no connection is broken by that, and nothing comes through."""
        self._namespace.pull()

    def freeze(self) -> None:
        """The same: a real link that is dead does not say so."""
        self._namespace.pull()

    def heal(self) -> None:
        """Plug it in again."""
        self._namespace.plug()

    def become(self, impairment: Impairment) -> None:
        """From now on it is like this; see `Network.become`."""
        self._namespace.limit(impairment.bytes_per_s)
        super().become(replace(impairment, bytes_per_s=None))


def may_have_namespaces() -> bool:
    """Whether this machine lets us make one, and limit its link."""
    try:
        with Namespace() as namespace:
            namespace.limit(1_000_000)
    except NoNamespace:
        return False
    return True


def _run(*command: str) -> str:
    """Run a command of iproute2; what it prints.

    Raises:
        NoNamespace: it failed.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own commands
            command, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoNamespace(f"{' '.join(command[:4])}: {error}") from None
    if done.returncode:
        raise NoNamespace(f"{' '.join(command[:6])}: {done.stderr.strip()[-200:]}")
    return done.stdout


def _clear_away() -> None:
    """Delete what a run that was killed has left behind."""
    for path in Path("/run/netns").glob(f"{_PREFIX}-*"):
        pid = path.name.removeprefix(f"{_PREFIX}-").partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(NoNamespace):
                _run("ip", "netns", "delete", path.name)


def _enter(path: Path) -> None:
    try:
        with path.open() as file:
            _set(file.fileno())
    except OSError as error:
        raise NoNamespace(f"{path}: {error.strerror}") from None


def _set(descriptor: int) -> None:
    """Move this thread; `os.setns` came with Python 3.12."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
        raise NoNamespace(f"setns: {os.strerror(ctypes.get_errno())}")
