"""Putting the fleet's keys together, and changing them: proposals that people sign, made from public halves alone.

The first proposal begins the repository; a rotation follows it by the rules of TUF: the new root needs the keys of
the old one and its own. What is no longer signed by those who now may, is signed anew in the same proposal.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from securesystemslib.signer import Key
from tuf.api.metadata import DelegatedRole, Delegations, Metadata, Root, Targets

from edge_runtime.errors import ConfigError
from fleet_server.releases.online_keys import OnlinePublic
from fleet_server.releases.people import Person, as_person, holder_of, require_enough
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.proposal import Proposal, ProposalKind, texts
from fleet_server.releases.repository import RepositoryFile, Trusted, vouch
from fleet_server.releases.roles import (
    DAY_MS,
    DIRECTOR,
    OFFLINE_ROLES,
    PATHS,
    RELEASE_ROLES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    THRESHOLD,
    TIMESTAMP,
    Duty,
    Preset,
    life_days,
    moment,
)


def begin(file: RepositoryFile, preset: Preset, people: Sequence[Person], now_ms: int) -> Proposal:
    """The first metadata of a fleet, for people to sign.

    Args:
        file: exported from a server that has no repository yet: its own keys are in it.
        preset: what is promised.
        people: whose keys it shall be.
        now_ms: from when on it is good.

    Raises:
        ConfigError: the people do not fit the preset, or the fleet has its keys already.
    """
    if file.roots:
        raise ConfigError("this fleet has its keys already: fleet keys rotate changes them")
    require_enough(people, preset)
    root = Metadata(_root(1, people, file.online, now_ms))
    targets = Metadata(_targets(1, people, file.online, now_ms))
    names = _holders(people, Duty.RELEASE)
    roles = {role: Metadata(_released(1, {}, role, names, now_ms)) for role in RELEASE_ROLES}
    documents: dict[str, Metadata[Any]] = {ROOT: root, TARGETS: targets, **roles}
    return Proposal(
        kind=ProposalKind.KEYS, documents=texts(documents), base=file, reason=f"begin {preset.value}"
    )


def rotate(
    file: RepositoryFile,
    before: Trusted,
    *,
    now_ms: int,
    people: Sequence[Person] = (),
    without: Collection[str] = (),
    preset: Preset | None = None,
    online: bool = False,
) -> Proposal:
    """Another set of keys, for people to sign.

    Args:
        file: as exported.
        before: the same, verified.
        now_ms: from when on it is good.
        people: who come in, or whose keys for the duties in their file take the place of those they had.
        without: holders who leave.
        preset: what is promised from now on; None for the same as before.
        online: take in the server's newest keys of the file.

    Raises:
        ConfigError: nothing would change, somebody is not there, or those who remain do not fit the preset.
    """
    known = people_of(before)
    unknown = [name for name in without if name not in {person.holder for person in known}]
    if unknown:
        raise ConfigError(f"{unknown[0]} holds no key: {', '.join(person.holder for person in known)} do")
    then = _merged([person for person in known if person.holder not in without], people)
    if not online and then == known and preset in (None, preset_of(known)):
        raise ConfigError("nothing would change: fleet keys renew only makes it good for longer")
    require_enough(then, preset or preset_of(then))
    used = file.online if online else _online_of(before)
    root = Metadata(_root(before.version(ROOT) + 1, then, used, now_ms))
    targets = Metadata(_targets(before.version(TARGETS) + 1, then, used, now_ms))
    documents: dict[str, Metadata[Any]] = {ROOT: root, TARGETS: targets}
    names = _holders(then, Duty.RELEASE)
    for role in RELEASE_ROLES:
        if not _still_vouched(targets, role, before.roles[role]):
            signed = before.roles[role].signed
            documents[role] = Metadata(_released(signed.version + 1, signed.targets, role, names, now_ms))
    return Proposal(kind=ProposalKind.KEYS, documents=texts(documents), base=file, reason="rotate")


def renew(file: RepositoryFile, before: Trusted, roles: Collection[str], now_ms: int) -> Proposal:
    """The same metadata of some roles, good for longer, for people to sign.

    Raises:
        ConfigError: no role, or one that people do not sign.
    """
    wrong = [role for role in roles if role not in OFFLINE_ROLES]
    if wrong or not roles:
        raise ConfigError(f"--role is one of {', '.join(OFFLINE_ROLES)}")
    documents: dict[str, Metadata[Any]] = {}
    for role in [role for role in OFFLINE_ROLES if role in roles]:
        copy: Metadata[Any] = Metadata.from_bytes(before.document(role).to_bytes())
        copy.signatures.clear()
        copy.signed.version += 1
        copy.signed.expires = _end(role, before.holders(role), now_ms)
        documents[role] = copy
    return Proposal(kind=ProposalKind.KEYS, documents=texts(documents), base=file, reason="renew")


def people_of(trusted: Trusted) -> list[Person]:
    """The people whose keys are in force, by name, and what each key is for."""
    duties: dict[str, tuple[Key, list[Duty]]] = {}
    for duty, role in ((Duty.ROOT, ROOT), (Duty.TARGETS, TARGETS), (Duty.RELEASE, RELEASE_ROLES[0])):
        for keyid, key in trusted.keys(role).items():
            duties.setdefault(keyid, (key, []))[1].append(duty)
    holders: dict[str, list[tuple[Key, tuple[Duty, ...]]]] = {}
    for key, found in duties.values():
        holders.setdefault(holder_of(key), []).append((key, tuple(found)))
    return [as_person(holder, keys) for holder, keys in sorted(holders.items())]


def preset_of(people: Sequence[Person]) -> Preset:
    """The preset that a set of people and keys keeps."""
    if len(people) == 1:
        return Preset.SINGLE
    apart = all(
        key.duties == (Duty.RELEASE,)
        for person in people
        for key in person.keys
        if Duty.RELEASE in key.duties
    )
    return Preset.OFFLINE if apart else Preset.TEAM


def _merged(known: Sequence[Person], people: Sequence[Person]) -> list[Person]:
    """A person who comes again brings new keys for the duties of their file, and keeps the others."""
    found = {person.holder: person for person in known}
    for person in people:
        there = found.get(person.holder)
        new = {duty for key in person.keys for duty in key.duties}
        kept = []
        for key in () if there is None else there.keys:
            duties = tuple(duty for duty in key.duties if duty not in new)
            if duties:
                kept.append(key.model_copy(update={"duties": duties}))
        found[person.holder] = person.model_copy(update={"keys": (*kept, *person.keys)})
    return [found[name] for name in sorted(found)]


def _root(version: int, people: Sequence[Person], online: OnlinePublic, now_ms: int) -> Root:
    root = Root(
        version=version,
        expires=_end(ROOT, _holders(people, Duty.ROOT), now_ms),
        consistent_snapshot=True,
    )
    for person in people:
        for role, duty in ((ROOT, Duty.ROOT), (TARGETS, Duty.TARGETS)):
            for key in person.of(duty):
                root.add_key(key, role)
    for role in (ROOT, TARGETS):
        root.roles[role].threshold = THRESHOLD
    for role in (SNAPSHOT, TIMESTAMP):
        root.add_key(online.key(role), role)
    return root


def _targets(version: int, people: Sequence[Person], online: OnlinePublic, now_ms: int) -> Targets:
    keys: dict[str, Key] = {key.keyid: key for person in people for key in person.of(Duty.RELEASE)}
    director = online.key(DIRECTOR)
    roles = {
        role: DelegatedRole(role, list(keys), THRESHOLD, terminating=True, paths=PATHS[role])
        for role in RELEASE_ROLES
    }
    roles[DIRECTOR] = DelegatedRole(DIRECTOR, [director.keyid], 1, terminating=True, paths=PATHS[DIRECTOR])
    return Targets(
        version=version,
        expires=_end(TARGETS, _holders(people, Duty.TARGETS), now_ms),
        delegations=Delegations({**keys, director.keyid: director}, roles),
    )


def _released(
    version: int, targets: Mapping[str, Any], role: str, holders: Collection[str], now_ms: int
) -> Targets:
    return Targets(version=version, expires=_end(role, holders, now_ms), targets=dict(targets))


def _end(role: str, holders: Collection[str], now_ms: int) -> Any:
    return moment(now_ms + life_days(role, holders) * DAY_MS)


def _holders(people: Sequence[Person], duty: Duty) -> list[str]:
    return [person.holder for person in people if person.of(duty)]


def _online_of(before: Trusted) -> OnlinePublic:
    def public(role: str) -> str:
        (key,) = before.keys(role).values()
        return str(key.keyval["public"])

    return OnlinePublic(snapshot=public(SNAPSHOT), timestamp=public(TIMESTAMP), director=public(DIRECTOR))


def _still_vouched(targets: Metadata[Targets], role: str, document: Metadata[Targets]) -> bool:
    try:
        vouch(targets, role, document)
    except ReleaseRefused:
        return False
    return True
