"""Between the session and the folder of updates: the desired state comes down, sealed reports go up.

The desired state is a retained message, unlike everything else that comes down: what it says is signed, and the
broker is trusted with none of it. Here it is only known to be a `Desired` for this device; who signed it, and
whether it is new, is for updates to judge.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from edge_runtime.clock import NS_PER_S
from edge_runtime.protocol.topics import Channel
from edge_runtime.protocol.update_wire import Desired
from edge_runtime.protocol.wire import WireError
from edge_runtime.telemetry import get_logger
from edge_runtime.uplink.letters import Letters
from edge_runtime.uplink.post import Post
from edge_runtime.uplink.settings import UplinkSettings
from edge_runtime.uplink.state_reports import StateReporter
from edge_runtime.uplink.update_files import FoundReports, UpdateFiles

_PAUSE_NS = NS_PER_S
_SPARE = 2
"""Places of the broker's that stay free for events and letters when a message of reports goes out."""


class UpdatesDesk:
    """The uplink's part in updates. Never waits: the disk is another thread's.

    Args:
        device: id.
        folder: `STATE/updates`.
        post: how messages go out.
        letters: which go out before reports.
        settings: for the waits.
        tell: given what the folder's thread found.
        rng: for jitter.

    Attributes:
        refused: messages on the desired state's topic that were not kept, by reason.
    """

    def __init__(
        self,
        device: str,
        folder: Path,
        *,
        post: Post,
        letters: Letters,
        settings: UplinkSettings,
        tell: Callable[[FoundReports], object],
        rng: random.Random,
    ) -> None:
        self._device, self._post, self._letters = device, post, letters
        self._pause_ns = 0
        self._reporter = StateReporter(device, settings.state_retry_first_s, settings.state_retry_cap_s, rng)
        self._files = UpdateFiles(folder, tell)
        self.refused: Counter[str] = Counter()

    @property
    def trouble(self) -> str | None:
        """A sentence where the folder cannot be written, else None."""
        return self._files.trouble

    def connected(self) -> None:
        """A session is there, and subscribed."""
        self._reporter.connected()
        self._files.hold(self._reporter.wanted())

    def disconnected(self) -> None:
        """The session is over."""
        self._reporter.disconnected()

    def desired(self, payload: bytes) -> None:
        """A message on the desired state's topic; retained or not."""
        if not payload:
            self.refused["cleared"] += 1  # the fleet has taken it away; what runs here stays as it is
            return
        try:
            found = Desired.decode(payload)
        except WireError as error:
            self._refuse(error.fault.value)
            return
        if found.device != self._device:
            self._refuse("other_device")
            return
        self._files.keep_desired(payload)

    def found(self, found: FoundReports) -> None:
        """The folder's thread looked."""
        self._reporter.found(found)
        self._files.hold(self._reporter.wanted())

    def acknowledged(self, mid: int, now_ns: int, *, failed: bool) -> None:
        """The broker's PUBACK, of whatever message."""
        done = self._reporter.acknowledged(mid, now_ns, failed=failed)
        if done:
            self._files.broker_has(done)
        self._files.hold(self._reporter.wanted())

    def work(self, now_ns: int, *, spent: bool) -> None:
        """Send what is due, if the broker takes it besides events and letters.

        Args:
            now_ns: monotonic time.
            spent: the day's bytes are; progress waits then.
        """
        if now_ns < self._pause_ns or not self._has_room:
            return
        message = self._reporter.message(now_ns, terminal_only=spent)
        if message is None:
            return
        payload, numbers = message
        mid = self._post.publish(Channel.STATE, payload)
        if mid is None:
            self._pause_ns = now_ns + _PAUSE_NS
        else:
            self._reporter.sent(mid, numbers)

    def wake_ns(self, *, spent: bool) -> int | None:
        """When `work` may have something to send."""
        due = self._reporter.wake_ns(terminal_only=spent) if self._has_room else None
        return None if due is None else max(due, self._pause_ns)

    @property
    def _has_room(self) -> bool:
        return self._letters.next() is None and (self._post.room > _SPARE or self._post.idle)

    def stop(self) -> None:
        """The process ends."""
        self._files.stop()

    def _refuse(self, why: str) -> None:
        self.refused[why] += 1
        get_logger().warning("a desired state was refused", why=why)
