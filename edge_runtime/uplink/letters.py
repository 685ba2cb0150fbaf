"""Everything but events that goes up: the newest of each kind, and answers to commands until they arrived. Pure."""

from collections import deque
from dataclasses import dataclass

from edge_runtime.protocol.topics import Channel

MAX_ANSWERS = 64


@dataclass(frozen=True, slots=True)
class Letter:
    """One message.

    Attributes:
        retained: the broker keeps it for whoever subscribes later.
    """

    channel: Channel
    payload: bytes
    retained: bool = False


class Letters:
    """What waits to be published. A newer letter of a kind takes the place of an older one; answers all go.

    Attributes:
        lost_answers: that gave way because too many waited.
    """

    def __init__(self) -> None:
        self._newest: dict[Channel, Letter] = {}
        self._answers: deque[Letter] = deque()
        self._travelling: dict[int, Letter] = {}
        self.lost_answers = 0

    def put(self, letter: Letter) -> None:
        """Publish this when there is room."""
        if letter.channel is not Channel.RESULT:
            self._newest[letter.channel] = letter
            return
        if len(self._answers) + len(self._travelling) >= MAX_ANSWERS and self._answers:
            self._answers.popleft()
            self.lost_answers += 1
        self._answers.append(letter)

    def next(self) -> Letter | None:
        """What to publish next, in the order of the session: presence, sync, outcomes, answers, the rest."""
        for channel in (Channel.PRESENCE, Channel.SYNC, Channel.OUTCOME):
            if channel in self._newest:
                return self._newest[channel]
        if self._answers:
            return self._answers[0]
        return next(iter(self._newest.values()), None)

    def sent(self, letter: Letter, mid: int) -> None:
        """The letter is with the broker's connection."""
        if letter.channel is Channel.RESULT:
            self._answers.popleft()
            self._travelling[mid] = letter
        elif self._newest.get(letter.channel) is letter:
            del self._newest[letter.channel]

    def acknowledged(self, mid: int) -> None:
        """The broker has it, or refused it for good."""
        self._travelling.pop(mid, None)

    def disconnected(self) -> None:
        """The session ended: what belonged to it is void, answers that were on their way wait again."""
        self._newest.clear()
        self._answers.extendleft(reversed(self._travelling.values()))
        self._travelling.clear()
