"""Who uses which engine: what is running, what ran well last, and what is assigned is never removed.

Each hold is a file of its own, so that one damaged file says nothing about the others. What a damaged one held is
not known, so nothing is removed until its model writes it anew or lets go.
"""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from pydantic import Field

from edge_runtime.engines.folder import StoreFolder
from edge_runtime.engines.recipe import Sha256
from edge_runtime.engines.records import (
    Record,
    names_in,
    read_record,
    remove_whatever,
    write_record,
)


class Role(str, Enum):
    """What an engine is to a model."""

    RUNNING = "running"
    LAST_GOOD = "last_good"
    ASSIGNED = "assigned"


class Hold(Record):
    """One model needs one engine.

    Attributes:
        model: its name in the configuration.
        role: what the engine is to it.
        key: of the engine.
    """

    model: Annotated[str, Field(min_length=1, max_length=256)]
    role: Annotated[Role, Field(strict=False)]
    key: Sha256

    def __str__(self) -> str:
        return f"{_TOLD[self.role]} {self.model}"


_TOLD = {
    Role.RUNNING: "runs as",
    Role.LAST_GOOD: "was the last good one of",
    Role.ASSIGNED: "is assigned to",
}


_HOLD = re.compile(r"[0-9a-f]{32}\.(running|last_good|assigned)\.json")


@dataclass(frozen=True, slots=True)
class Holds:
    """Holds on disk.

    Args:
        folder: of the store.
    """

    folder: StoreFolder

    def all(self) -> tuple[tuple[Hold, ...], str | None]:
        """Every hold; and why some cannot be known, or None."""
        found: list[Hold] = []
        doubt: str | None = None
        try:
            names = names_in(self.folder.holds)
        except OSError as error:
            return (), f"who uses what is not known: {self.folder.holds} cannot be read: {error.strerror}"
        for name in names:
            if not _HOLD.fullmatch(name):
                continue
            try:
                hold = read_record(Hold, self.folder.holds / name)
            except (ValueError, OSError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is damaged"
                doubt = f"who uses what is not known: {self.folder.holds / name} cannot be read: {why}"
                continue
            if hold is not None and name == _name(hold.model, hold.role):
                found.append(hold)
            elif hold is not None:
                doubt = f"who uses what is not known: {self.folder.holds / name} has another's name"
        return tuple(found), doubt

    def of(self, model: str, role: Role) -> str | None:
        """The key that a model holds in a role; None where it holds none that can be read."""
        holds, _ = self.all()
        return next((hold.key for hold in holds if (hold.model, hold.role) == (model, role)), None)

    def set(self, hold: Hold) -> None:
        """Keep an engine from now on, instead of the one that this model held in this role.

        Raises:
            StoreUnusable: it cannot be written down.
            StoreBusy: another process holds the store.
        """
        if self.of(hold.model, hold.role) == hold.key:
            return
        with self.folder.owned(), self.folder.explained():
            write_record(self.folder.holds / _name(hold.model, hold.role), hold)

    def keep_only(
        self, models: Collection[str], roles: Collection[Role], *, dry_run: bool
    ) -> tuple[Hold, ...]:
        """Let go in these roles of what other models than these hold; what that was, or would be.

        Raises:
            StoreUnusable: it cannot be written down.
            StoreBusy: another process holds the store.
        """
        others = tuple(hold for hold in self.all()[0] if hold.role in roles and hold.model not in models)
        for hold in () if dry_run else others:
            self.drop(hold.model, hold.role)
        return others

    def drop(self, model: str, role: Role | None = None) -> None:
        """Let a model's engine go in one role, or in all.

        Raises:
            StoreUnusable: it cannot be written down.
            StoreBusy: another process holds the store.
        """
        paths = [self.folder.holds / _name(model, one) for one in Role if role in (None, one)]
        present = [path for path in paths if path.exists() or path.is_symlink()]
        if present:
            with self.folder.owned(), self.folder.explained():
                for path in present:
                    remove_whatever(path)


def _name(model: str, role: Role) -> str:
    digest = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest[:32]}.{role.value}.json"
