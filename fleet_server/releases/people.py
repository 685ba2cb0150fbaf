"""The public half of a person: whose keys they are, and what each may sign. This is what goes from hand to hand."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from securesystemslib.exceptions import FormatError
from securesystemslib.signer import Key, SSlibKey

from edge_runtime.errors import ConfigError
from fleet_server.releases.roles import Duty, Preset

HOLDER_FIELD = "x-holder"
"""Of a key in the metadata: a name that is signed with it, so that one person's two keys count as one person."""

Holder = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,31}$")]
_MAX_FILE_BYTES = 64 * 1024


class PublicKey(BaseModel):
    """One key of a person."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    keyid: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    keytype: Literal["ed25519"] = "ed25519"
    public: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    duties: Annotated[tuple[Duty, ...], Field(min_length=1, max_length=3)]

    @model_validator(mode="after")
    def _is_its_id(self) -> "PublicKey":
        if bare_key(self.public).keyid != self.keyid:
            raise ValueError("keyid is not that of the key")
        return self


class Person(BaseModel):
    """`NAME.public.json`: one person and the keys of theirs that the fleet should trust."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["fleet-person.v1"] = "fleet-person.v1"
    holder: Holder
    keys: Annotated[tuple[PublicKey, ...], Field(min_length=1, max_length=8)]

    def of(self, duty: Duty) -> list[SSlibKey]:
        """This person's keys for a duty, as the metadata names them."""
        return [named_key(key.public, self.holder) for key in self.keys if duty in key.duties]


def bare_key(public: str) -> SSlibKey:
    """The key of 64 hexadecimal digits of Ed25519, with its usual id."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)))


def named_key(public: str, holder: str) -> SSlibKey:
    """A key that says whose it is."""
    bare = bare_key(public)
    return SSlibKey(bare.keyid, bare.keytype, bare.scheme, bare.keyval, {HOLDER_FIELD: holder})


def holder_of(key: Key) -> str:
    """Whose key it is; the key's own id where it does not say, as somebody who is nobody else."""
    found = key.unrecognized_fields.get(HOLDER_FIELD)
    return found if isinstance(found, str) else key.keyid


def read_person(path: Path) -> Person:
    """Read `NAME.public.json`.

    Raises:
        ConfigError: it is missing, or not one.
    """
    try:
        with path.open("rb") as stream:
            return Person.model_validate_json(stream.read(_MAX_FILE_BYTES))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValidationError, FormatError, ValueError):
        raise ConfigError(f"{path} is no public file of a person: fleet keys init makes one") from None


def joined(people: Iterable[Person]) -> list[Person]:
    """Persons, each once: somebody may bring the keys for the safe and those for every day in two files."""
    found: dict[str, Person] = {}
    for person in people:
        there = found.get(person.holder)
        keys = person.keys if there is None else (*there.keys, *person.keys)
        found[person.holder] = person.model_copy(update={"keys": keys})
    return list(found.values())


def require_enough(people: Sequence[Person], preset: Preset) -> None:
    """Refuse a set of people with whom the preset's promise could not be kept.

    Raises:
        ConfigError: too few people, a key of two people, or a person with too many keys; the text says what to do.
    """
    names = [person.holder for person in people]
    if len(set(names)) != len(names):
        raise ConfigError(f"two of the files are of one person: {', '.join(sorted(names))}")
    _require_distinct(key.keyid for person in people for key in person.keys)
    if preset is Preset.SINGLE:
        if len(people) != 1 or any(len(people[0].of(duty)) != 2 for duty in Duty):
            raise ConfigError(
                "the preset single is one person with two keys: fleet keys init --preset single"
            )
        return
    for duty, least in ((Duty.ROOT, 3), (Duty.TARGETS, 3), (Duty.RELEASE, 2)):
        counts = {person.holder: len(person.of(duty)) for person in people if person.of(duty)}
        if len(counts) < least:
            raise ConfigError(
                f"the preset {preset.value} needs {least} people with a key for {duty.value}, and there are "
                f"{len(counts)}: with fewer, one lost key would be the end of it"
            )
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ConfigError(
                f"{twice[0]} has two keys for {duty.value}, with which one person could sign alone"
            )
    if preset is Preset.OFFLINE:
        both = [
            person.holder
            for person in people
            for key in person.keys
            if Duty.RELEASE in key.duties and len(key.duties) > 1
        ]
        if both:
            raise ConfigError(
                f"the preset offline has a key of its own for releases; {both[0]}'s is for more"
            )


def _require_distinct(keyids: Iterable[str]) -> None:
    seen: set[str] = set()
    for keyid in keyids:
        if keyid in seen:
            raise ConfigError(f"the key {keyid[:12]} is there twice: each person makes keys of their own")
        seen.add(keyid)


def as_person(holder: str, keys: Iterable[tuple[Any, tuple[Duty, ...]]]) -> Person:
    """A person of keys that metadata names; see `ceremony.people_of`."""
    return Person(
        holder=holder,
        keys=tuple(
            PublicKey(keyid=key.keyid, public=key.keyval["public"], duties=duties) for key, duties in keys
        ),
    )
