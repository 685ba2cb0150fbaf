"""Drafting and signing for `fleet release`, on a machine that needs no server."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_runtime.errors import ConfigError
from fleet_server.cli.keys import known_repository, now_ms
from fleet_server.cli.output import say, write
from fleet_server.cli.passphrase import passphrase_of
from fleet_server.cli.release_forms import review_lines

if TYPE_CHECKING:
    from fleet_server.releases.packing import Content
    from fleet_server.releases.proposal import Proposal


def drafted(release: Path, repository: Path, keys: Path, root: str | None, wishes: Any) -> "Proposal":
    """A proposal of a packed release, signed by nobody.

    Raises:
        EdgeRuntimeError: the release, the repository or a wish cannot be used.
    """
    from fleet_server.releases.drafting import line, propose_release, terms_for
    from fleet_server.releases.fitness import require_ready
    from fleet_server.releases.packing import unpack_release
    from fleet_server.releases.repository import read_repository

    file = read_repository(repository)
    before = known_repository(file, keys, root)
    with tempfile.TemporaryDirectory(prefix="fleet-release.") as scratch:
        content = unpack_release(release, Path(scratch) / "release")
    terms = terms_for(file, before, content, wishes)
    if content.manifest is not None:
        earlier = line(before, terms.kind, terms.name)
        require_ready(terms, content.manifest, earlier[0][0] if earlier else None)
    return propose_release(file, before, content.bundle, terms, now_ms())


def sign_and_write(
    proposal: "Proposal", out: Path, keys: Path, passphrase_file: Path | None, root: str | None
) -> None:
    """Show what is about to be signed, sign it with one key, write it, and say what comes next.

    Raises:
        EdgeRuntimeError: it may not be signed, or not by this person.
    """
    from fleet_server.releases.key_directory import KeyDirectory
    from fleet_server.releases.proposal import ProposalKind, missing, write_proposal
    from fleet_server.releases.review import review, sign_once

    if proposal.kind is ProposalKind.KEYS:
        raise ConfigError("this is about keys: fleet keys sign signs it")
    directory = KeyDirectory(keys)
    reviewed = review(proposal, directory, root, now_ms())
    for line in review_lines(proposal, reviewed):
        say(line)
    signed, keyid = sign_once(proposal, reviewed, directory, passphrase_of(passphrase_file))
    write_proposal(out, signed)
    write(f"{out}")
    lacking = missing(reviewed.base, signed.parsed())
    then = f"{out} --keys DIR: one signature is missing" if lacking else f"{out}"
    say(
        f"{directory.person.holder} signed with {keyid[:16]}; next: "
        f"fleet release {'approve' if lacking else 'publish'} {then}"
    )


def content_for(proposal: "Proposal", release: Path, scratch: Path) -> "Content":
    """The files of a proposal's release.

    Raises:
        ConfigError: they are those of another one.
    """
    from fleet_server.releases.packing import content_of, parse_bundle, unpack_release

    wanted = parse_bundle((proposal.bundle or "").encode())
    found = (
        content_of(release, wanted.name) if release.is_dir() else unpack_release(release, scratch / "files")
    )
    if found.bundle != wanted:
        raise ConfigError(f"{release} is another release than the proposal is about")
    return found
