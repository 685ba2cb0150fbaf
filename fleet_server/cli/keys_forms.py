"""How `fleet keys` shows whose keys a repository names, and until when what they signed is good."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_runtime.errors import ConfigError
from fleet_server.cli.output import when

if TYPE_CHECKING:
    from fleet_server.releases.repository import Trusted


def shown(path: Path, now_ms: int) -> tuple["Trusted", dict[str, Any]]:
    """A repository as a file says that it is, or as a proposal would make it."""
    from fleet_server.releases.judgement import unsigned
    from fleet_server.releases.proposal import missing, read_proposal
    from fleet_server.releases.repository import fingerprint, read_repository, verified

    try:
        file = read_repository(path)
    except ConfigError:
        proposal = read_proposal(path)
        base = verified(proposal.base, None)
        documents = proposal.parsed()
        after = unsigned(base, proposal.kind, documents, now_ms)
        return after, {"missing": missing(base, documents), "fingerprint": fingerprint(after.root)}
    found = verified(file, None)
    if found is None:
        raise ConfigError(f"{path}: this fleet has no keys of people yet") from None
    return found, {"fingerprint": fingerprint(found.root)}


def plain(trusted: "Trusted") -> dict[str, Any]:
    """People, versions and ends, for programs."""
    from fleet_server.releases.ceremony import people_of, preset_of

    people = people_of(trusted)
    roles = ("root", "targets", *trusted.roles)
    return {
        "preset": preset_of(people).value,
        "people": [person.model_dump(mode="json") for person in people],
        "versions": {role: trusted.version(role) for role in roles},
        "expires": {role: trusted.document(role).signed.expires.isoformat() for role in roles},
    }


def people_lines(trusted: "Trusted") -> list[str]:
    """Root, preset and people, line by line."""
    from fleet_server.releases.ceremony import people_of, preset_of
    from fleet_server.releases.repository import fingerprint

    people = people_of(trusted)
    lines = [f"root        {trusted.version('root')}, fingerprint {fingerprint(trusted.root)[:32]}"]
    lines.append(f"preset      {preset_of(people).value}: two signatures each")
    for person in people:
        keys = "; ".join(f"{key.keyid[:16]} {'+'.join(d.value for d in key.duties)}" for key in person.keys)
        lines.append(f"{person.holder:<11} {keys}")
    return lines


def end_lines(trusted: "Trusted") -> list[str]:
    """Version and end of each role of people, line by line."""
    from fleet_server.releases.roles import milliseconds

    return [
        f"{role:<14} version {trusted.version(role)}, good until "
        f"{when(milliseconds(trusted.document(role).signed.expires))} UTC"
        for role in ("root", "targets", *trusted.roles)
    ]
