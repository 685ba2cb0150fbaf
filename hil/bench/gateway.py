"""A gateway between device and server: it impairs the network, and counts what the device sends."""

from hil.bench.commands import SshShell
from hil.bench.records import InterfaceCounter, Netem
from hil.parts import Answer
from hil.problems import DeviceError, RigError
from sim.network import Impairment


class _Gateway:
    def __init__(self, shell: SshShell) -> None:
        self._shell = shell

    def lacks(self) -> list[str]:
        """What this machine lacks to reach it."""
        return self._shell.lacks()

    def _run(self, *words: str) -> Answer:
        """A gateway that is not reached makes the rig sick: the device has nothing to do with it."""
        try:
            answer = self._shell.run(words)
        except DeviceError as error:
            raise RigError(f"gateway: {error}") from None
        return answer

    def _done(self, *words: str) -> str:
        answer = self._run(*words)
        if answer.code:
            raise RigError(
                f"gateway: {' '.join(words)} ended with {answer.code}: {answer.err.strip()[-200:]}"
            )
        return answer.out


class NetemLink(_Gateway):
    """`NetworkLink` by `tc netem`.

    Args:
        netem: of the rig's file.
    """

    def __init__(self, netem: Netem) -> None:
        super().__init__(SshShell(netem.gateway))
        self._interface = netem.interface

    def become(self, impairment: Impairment) -> None:
        """Late, lossy or narrow towards the device; the way back is as it was."""
        self._done(
            "tc", "qdisc", "replace", "dev", self._interface, "root", "netem", *netem_words(impairment)
        )

    def cut(self) -> None:
        """Every packet towards the device is lost, so that no connection lives."""
        self._done("tc", "qdisc", "replace", "dev", self._interface, "root", "netem", "loss", "100%")

    def heal(self) -> None:
        """Take the discipline away; there may be none."""
        self._run("tc", "qdisc", "del", "dev", self._interface, "root")

    @property
    def told(self) -> str:
        """Which interface of whom."""
        return f"tc netem on {self._interface} of {self._shell.told}"


def netem_words(impairment: Impairment) -> list[str]:
    """The words after `netem` for an impairment.

    Raises:
        RigError: netem has no such thing.
    """
    if impairment.portal:
        raise RigError("netem has no portal: a gateway that answers in the server's place is another one")
    words: list[str] = []
    if impairment.delay_s or impairment.jitter_s:
        words += ["delay", f"{impairment.delay_s * 1000:g}ms"]
        words += [f"{impairment.jitter_s * 1000:g}ms"] if impairment.jitter_s else []
    if impairment.loss:
        words += ["loss", f"{impairment.loss * 100:g}%"]
    if impairment.bytes_per_s is not None:
        words += ["rate", f"{round(impairment.bytes_per_s * 8)}bit"]
    return words


class InterfaceBytes(_Gateway):
    """`ByteCounter` by the counters of an interface.

    Args:
        counter: of the rig's file.
    """

    def __init__(self, counter: InterfaceCounter) -> None:
        super().__init__(SshShell(counter.gateway))
        self._interface = counter.interface

    def sent_bytes(self) -> int:
        """That came from the device."""
        text = self._done("cat", f"/sys/class/net/{self._interface}/statistics/rx_bytes").strip()
        if not text.isdecimal():
            raise RigError(f"gateway: the counter of {self._interface} is no number: {text[:40]!r}")
        return int(text)

    @property
    def told(self) -> str:
        """Which interface of whom."""
        return f"bytes into {self._interface} of {self._shell.told}"
