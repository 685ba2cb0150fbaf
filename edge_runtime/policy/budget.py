"""How much each permit let go lately, for each rule of each camera: budgets per hour, repeats, revisions. Bounded.

The hour slides in steps of a minute and is counted to its careful side: a minute that is partly within the hour
counts whole. The book knows no clock; a time that goes backwards gives no usage, and then nothing is let go.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from edge_runtime.policy.request import Known, Usage

NS_PER_MINUTE = 60 * 1_000_000_000
MINUTES = 60

HAPPENINGS_REMEMBERED = 64
"""Happenings of one rule whose later revisions are known as such; a camera has a handful open at once."""

CameraRule = tuple[str, str]
"""A camera and one of its rules: rule names differ within a camera only."""

RULES_COUNTED = 4096
"""Permits times rules. With more in use within an hour, the next one has no usage and is held."""


@dataclass(slots=True)
class _Page:
    """What one permit let go for one rule.

    Attributes:
        minutes: (minute, events, evidence bytes), oldest first.
        known: happenings by id, oldest first.
        last_ns: when another event of any happening was last sent; None when none was.
        touched_ns: when the page was last written.
    """

    minutes: deque[tuple[int, int, int]] = field(default_factory=deque)
    known: "OrderedDict[str, Known]" = field(default_factory=OrderedDict)
    last_ns: int | None = None
    touched_ns: int = 0


class BudgetBook:
    """Counts what was sent. Not thread-safe: it belongs to whoever decides.

    Args:
        rules: pages kept at most.
    """

    def __init__(self, rules: int = RULES_COUNTED) -> None:
        self._pages: OrderedDict[tuple[str, str, str], _Page] = OrderedDict()
        self._rules = rules
        self._now_ns = 0

    def __len__(self) -> int:
        return len(self._pages)

    def usage(
        self, permits: Iterable[str], where: CameraRule, happening: str, now_ns: int
    ) -> dict[str, Usage]:
        """What each permit let go for one rule of one camera, before an event of `happening`.

        Args:
            permits: names of the policy's permits.
            where: camera and rule of the event.
            happening: id of the event, the same in all its revisions.
            now_ns: on a clock that never goes back.

        Returns:
            Usage by permit; a permit is missing where its page could not be kept, or the time went backwards.
        """
        if now_ns < self._now_ns:
            return {}
        self._now_ns = now_ns
        found = {}
        for permit in permits:
            page = self._pages.get((permit, *where))
            if page is not None:
                found[permit] = _read(page, happening, now_ns)
            elif self._has_room(now_ns):
                found[permit] = Usage()
        return found

    def sent(self, permit: str, where: CameraRule, happening: str, evidence_bytes: int, now_ns: int) -> None:
        """An event was let go.

        Args:
            permit: that let it go.
            where: camera and rule of the event.
            happening: id of the event.
            evidence_bytes: of the crop that may leave with it.
            now_ns: when.
        """
        page = self._page(permit, where, now_ns)
        minute = now_ns // NS_PER_MINUTE
        if page.minutes and page.minutes[-1][0] >= minute:
            last, events, size = page.minutes[-1]
            page.minutes[-1] = (last, events + 1, size + evidence_bytes)
        else:
            page.minutes.append((minute, 1, evidence_bytes))
        _forget(page, now_ns)
        if page.known.get(happening) is not Known.SENT:
            page.last_ns = now_ns
        _remember(page, happening, Known.SENT)

    def coalesced(self, permit: str, where: CameraRule, happening: str, now_ns: int) -> None:
        """An event stayed because it only repeats another; its later revisions will stay as well."""
        _remember(self._page(permit, where, now_ns), happening, Known.COALESCED)

    def _page(self, permit: str, where: CameraRule, now_ns: int) -> _Page:
        self._has_room(now_ns)
        page = self._pages.setdefault((permit, *where), _Page())
        self._pages.move_to_end((permit, *where))
        page.touched_ns = now_ns
        return page

    def _has_room(self, now_ns: int) -> bool:
        """Whether another page fits, after pages that nobody wrote to within the hour are dropped."""
        while len(self._pages) >= self._rules:
            key, oldest = next(iter(self._pages.items()))
            if now_ns - oldest.touched_ns < (MINUTES + 1) * NS_PER_MINUTE:
                return False
            del self._pages[key]
        return True


def _read(page: _Page, happening: str, now_ns: int) -> Usage:
    _forget(page, now_ns)
    return Usage(
        events=sum(events for _, events, _ in page.minutes),
        evidence_bytes=sum(size for _, _, size in page.minutes),
        since_sent_ns=None if page.last_ns is None else now_ns - page.last_ns,
        known=page.known.get(happening, Known.NEW),
    )


def _forget(page: _Page, now_ns: int) -> None:
    while page.minutes and page.minutes[0][0] < now_ns // NS_PER_MINUTE - MINUTES:
        page.minutes.popleft()


def _remember(page: _Page, happening: str, known: Known) -> None:
    page.known[happening] = known
    page.known.move_to_end(happening)
    while len(page.known) > HAPPENINGS_REMEMBERED:
        page.known.popitem(last=False)
