"""Which release each slot runs, and which it goes back to: one small file, written whole by one process."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from edge_runtime.durable import write_file
from edge_runtime.protocol.release import Sha256
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.update import SlotName
from edge_runtime.updates.store.places import Places

_MAX_FILE = 1 << 20


class SlotState(BaseModel):
    """What one slot runs. The default is what the device was set up with.

    Attributes:
        active: bundle's SHA-256 of the release to open; None is what the configuration names.
        trial: `active` has yet to prove itself.
        last_good: what to go back to: the one that ran before; None is what the configuration names.
        earlier: on trial, what `last_good` itself goes back to: it may have been accepted lately, and not stay.
        values, last_good_values, earlier_values: per-device values that a configuration was assigned with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    active: Sha256 | None = None
    trial: bool = False
    last_good: Sha256 | None = None
    earlier: Sha256 | None = None
    values: Values = Field(default_factory=dict)
    last_good_values: Values = Field(default_factory=dict)
    earlier_values: Values = Field(default_factory=dict)

    @model_validator(mode="after")
    def _on_trial_is_something(self) -> "SlotState":
        if self.trial and self.active is None:
            raise ValueError("what the configuration names is never on trial")
        return self

    def begun(self, sha256: str, values: Values) -> "SlotState":
        """The same slot with a release on trial; a trial that it replaces was never good."""
        if self.trial:
            return self.model_copy(update={"active": sha256, "values": dict(values)})
        return SlotState(
            active=sha256,
            trial=True,
            last_good=self.active,
            earlier=self.last_good,
            values=dict(values),
            last_good_values=self.values,
            earlier_values=self.last_good_values,
        )

    def committed(self) -> "SlotState":
        """The same slot, its trial passed; what ran before stays the one to go back to."""
        return self.model_copy(update={"trial": False, "earlier": None, "earlier_values": {}})

    def reverted(self) -> "SlotState":
        """The same slot as it was before the trial; without a trial nothing changes."""
        if not self.trial:
            return self
        return SlotState(
            active=self.last_good,
            values=self.last_good_values,
            last_good=self.earlier,
            last_good_values=self.earlier_values,
        )

    def given_up(self) -> "SlotState":
        """The same slot with what perception opens in place of an accepted release that did not stay.

        That is never the same release once more: where nothing else is known, it is what the configuration names.
        """
        if self.last_good == self.active:
            return SlotState()
        return SlotState(
            active=self.last_good,
            values=self.last_good_values,
            last_good=self.last_good,
            last_good_values=self.last_good_values,
        )


class Slots(BaseModel):
    """`slots.json`.

    Attributes:
        slots: by name; a slot that no release ever reached is not in it.
        lost: nothing readable was found where something had been; not written down.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Annotated[int, Field(ge=1, le=1)] = 1
    slots: dict[SlotName, SlotState] = Field(default_factory=dict)
    lost: Annotated[bool, Field(exclude=True)] = False

    def of(self, slot: str) -> SlotState:
        """What a slot runs."""
        return self.slots.get(slot, SlotState())

    def with_slot(self, slot: str, state: SlotState) -> "Slots":
        """The same, but for one slot."""
        return Slots(slots={**self.slots, slot: state})

    def needed(self) -> frozenset[str]:
        """Releases that run or that a slot may go back to."""
        found = (
            one for state in self.slots.values() for one in (state.active, state.last_good, state.earlier)
        )
        return frozenset(one for one in found if one is not None)


def read_slots(root: Path) -> Slots:
    """What is written below `STATE/updates`; never fails.

    Without anything readable the device runs what its configuration names, and `lost` says so where there had been
    something: a device with a broken state file once restarted for ever (greengrass-nucleus #1488).
    """
    places = Places(root)
    tried = [_read(path) for path in (places.slots, places.slots_copy)]
    readable = next((one for one in tried if isinstance(one, Slots)), None)
    if readable is not None:
        return readable
    return Slots(lost=any(one is _UNREADABLE for one in tried))


def write_slots(places: Places, slots: Slots) -> None:
    """Write it down, and then its copy; durable when it returns.

    Raises:
        OSError: it could not be written, and the old content stays.
    """
    data = slots.model_dump_json(indent=1).encode()
    write_file(places.slots, data, 0o600)
    write_file(places.slots_copy, data, 0o600)


_UNREADABLE = object()


def _read(path: Path) -> object:
    """The slots, `_UNREADABLE`, or None where there is no file."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE)
        return Slots.model_validate_json(data)
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        return _UNREADABLE
