"""One person's keys in a directory of their own: private halves under a passphrase, and the root they trust.

```
DIR/NAME.public.json     what others need: give it to whoever puts the fleet's keys together
DIR/<first of keyid>.key one private key under the passphrase
DIR/trusted-root.json    the newest root that this person has seen: what they sign is checked against it
```
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError
from securesystemslib.signer import CryptoSigner

from edge_runtime.durable import write_file
from edge_runtime.errors import ConfigError
from fleet_server.releases.people import Person, PublicKey, bare_key, read_person
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.roles import Duty
from fleet_server.releases.sealed_key import COST, SealedKey, open_key, seal_key

LEAST_PASSPHRASE = 12
_MAX_FILE_BYTES = 1 << 20
_ROOT_NAME = "trusted-root.json"


class KeyDirectory:
    """The keys of one person.

    Args:
        directory: made by `create`.

    Raises:
        ConfigError: it is none.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        found = sorted(directory.glob("*.public.json"))
        if len(found) != 1:
            raise ConfigError(
                f"{directory} is no directory of keys: fleet keys init {directory} --holder NAME makes one"
            )
        self.public_file = found[0]
        self.person: Person = read_person(found[0])

    @classmethod
    def create(
        cls,
        directory: Path,
        holder: str,
        duties: Collection[tuple[Duty, ...]],
        passphrase: str,
        cost: int = COST,
    ) -> "KeyDirectory":
        """Make keys, one for each tuple of duties.

        Args:
            directory: missing or empty; it is made readable by its owner alone.
            holder: short name of the person.
            duties: what each key is for.
            passphrase: at least `LEAST_PASSPHRASE` characters.
            cost: of the passphrase, see `sealed_key`.

        Raises:
            ConfigError: there is something already, it cannot be written, or a value cannot be used.
        """
        if len(passphrase) < LEAST_PASSPHRASE:
            raise ConfigError(f"a passphrase has at least {LEAST_PASSPHRASE} characters")
        made = [(Ed25519PrivateKey.generate(), tuple(duty)) for duty in duties]
        try:
            person = Person(holder=holder, keys=tuple(_public(key, duty) for key, duty in made))
        except ValidationError:
            raise ConfigError(
                f"--holder {holder[:40]}: small letters, digits, dots and dashes, at most 32"
            ) from None
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise ConfigError(f"{directory} is not empty: keys are never written over others")
            for key, _ in made:
                sealed = seal_key(key, passphrase, cost)
                name = f"{bare_key(sealed.public).keyid[:16]}.key"
                write_file(directory / name, sealed.model_dump_json(indent=1).encode(), 0o600)
            text = person.model_dump_json(indent=1).encode()
            write_file(directory / f"{holder}.public.json", text, 0o644)
        except OSError as error:
            raise ConfigError(f"{directory} cannot be written: {error.strerror}") from None
        return cls(directory)

    @property
    def root_file(self) -> Path:
        """Where the root lies that this person trusts."""
        return self.directory / _ROOT_NAME

    def signers(self, passphrase: str, keyids: Collection[str]) -> Iterator[CryptoSigner]:
        """The private keys among these, opened one after the other in the order of the public file.

        Raises:
            ReleaseRefused: the passphrase is another one.
            ConfigError: a key's file is missing or damaged.
        """
        for key in self.person.keys:
            if key.keyid in keyids:
                yield CryptoSigner(open_key(self._sealed(key.keyid), passphrase))

    def trusted_root(self) -> bytes | None:
        """The root that this person has pinned, or None before the first one."""
        path = self.root_file
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None

    def trust(self, root: bytes) -> None:
        """Pin a root.

        Raises:
            ConfigError: the directory cannot be written.
        """
        try:
            write_file(self.root_file, root, 0o644)
        except OSError as error:
            raise ConfigError(f"{self.directory} cannot be written: {error.strerror}") from None

    def _sealed(self, keyid: str) -> SealedKey:
        path = self.directory / f"{keyid[:16]}.key"
        try:
            sealed = SealedKey.model_validate_json(_read(path))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except ValidationError:
            raise ConfigError(f"{path} is no key: restore it from a copy") from None
        if bare_key(sealed.public).keyid != keyid:
            raise ReleaseRefused("wrong_key", f"{path} is another key than {self.public_file.name} says")
        return sealed


def _public(key: Ed25519PrivateKey, duties: tuple[Duty, ...]) -> PublicKey:
    public = key.public_key().public_bytes_raw().hex()
    return PublicKey(keyid=bare_key(public).keyid, public=public, duties=duties)


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_MAX_FILE_BYTES)
