"""The part of `fleet release` that needs no server and no network: pack, sign, approve, revoke, inspect."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from edge_runtime.clock import SystemClock
from edge_runtime.errors import ConfigError
from fleet_server.cli.keys import Keys, Out, RootOption, known_repository, now_ms
from fleet_server.cli.output import say, size, write, write_json
from fleet_server.cli.passphrase import PassphraseFile
from fleet_server.cli.release_forms import terms_lines
from fleet_server.cli.release_signing import content_for, drafted, sign_and_write
from fleet_server.cli.target import Json
from fleet_server.cli.terms_options import (
    Hardware,
    NoRollback,
    Notes,
    Openings,
    RollbackTo,
    TermsOption,
    ways_back,
)

ProposalFile = Annotated[
    Path, typer.Argument(metavar="PROPOSAL", help="What fleet release sign wrote.", show_default=False)
]
RepositoryOption = Annotated[
    Path,
    typer.Option(
        "--repository", metavar="FILE", help="What fleet keys export wrote, new enough.", show_default=False
    ),
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Of the line of releases.", show_default=False)
]
CounterArgument = Annotated[
    int,
    typer.Argument(metavar="COUNTER", min=1, help="Of the release; there is no latest.", show_default=False),
]
Kind = Annotated[str, typer.Option("--kind", metavar="KIND", help="model or configuration.")]
Files = Annotated[
    Path | None,
    typer.Option(
        "--release", metavar="FILE|DIR", help="The packed release, or the folder it was packed from."
    ),
]


def pack(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A model package, or a folder with overlay.yaml.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The file to write.", show_default=False)
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Of the line of releases; else the package's."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a release as one file: the same folder gives the same bytes. Anything executable is refused."""
    from fleet_server.releases.packing import content_of, write_release

    content = content_of(directory, name)
    digest = write_release(content, out)
    if json:
        write_json({"file": str(out), "file_sha256": digest, "bundle_sha256": content.bundle.sha256})
        return
    write(f"{out}: {content.bundle.kind.value} {content.bundle.name}, bundle sha256 {content.bundle.sha256}")
    say(
        f"{len(content.bundle.files)} files, {size(content.bundle.total_bytes)}; next: fleet release sign {out}"
    )


def sign(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="What fleet release pack wrote.", show_default=False)
    ],
    repository: RepositoryOption,
    keys: Keys,
    out: Out,
    opening: Openings = None,
    counter: Annotated[
        int | None, typer.Option("--counter", min=1, help="One more than the highest without it.")
    ] = None,
    rollback_to: RollbackTo = None,
    no_rollback: NoRollback = False,
    hardware: Hardware = None,
    terms: TermsOption = None,
    relabels: Annotated[
        bool, typer.Option("--relabels", help="Other labels than the release before are meant.")
    ] = False,
    accept_drop: Annotated[
        str | None,
        typer.Option("--accept-drop", metavar="REASON", help="Why a lower accuracy than before is meant."),
    ] = None,
    notes: Notes = None,
    passphrase_file: PassphraseFile = None,
    root: RootOption = None,
) -> None:
    """Sign a release as its builder: a proposal for somebody else to approve.

    Where nothing else is said, every device may take it at once, as far as a rollout lets them, and may be sent
    back to the release before it.
    """
    from fleet_server.cli.terms_words import openings_of, read_terms
    from fleet_server.releases.drafting import Wishes

    back = ways_back(rollback_to, none=no_rollback)
    given = read_terms(terms)
    fit = given.fit.model_copy(update={"hardware": tuple(hardware)}) if hardware else given.fit
    wishes = Wishes(
        counter=counter,
        fit=fit,
        rollback_to=back,
        openings=openings_of(opening or (), SystemClock()),
        shadow=given.shadow,
        probation=given.probation,
        trackers=given.trackers,
        relabels=relabels,
        accepts_drop=accept_drop,
        notes=notes or "",
    )
    proposal = drafted(release, repository, keys, root, wishes)
    sign_and_write(proposal, out, keys, passphrase_file, root)


def approve(
    proposal: ProposalFile,
    keys: Keys,
    release: Files = None,
    passphrase_file: PassphraseFile = None,
    root: RootOption = None,
) -> None:
    """Sign a release, or its revocation, as the second person. What you sign is shown before."""
    from fleet_server.releases.proposal import read_proposal

    found = read_proposal(proposal)
    if release is not None:
        with tempfile.TemporaryDirectory(prefix="fleet-release.") as scratch:
            content_for(found, release, Path(scratch))
        say(f"{release} is what the proposal is about")
    sign_and_write(found, proposal, keys, passphrase_file, root)


def revoke(
    name: NameArgument,
    counter: CounterArgument,
    repository: RepositoryOption,
    keys: Keys,
    out: Out,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.", show_default=False)],
    kind: Kind = "model",
    passphrase_file: PassphraseFile = None,
    root: RootOption = None,
) -> None:
    """Propose to take a release out of the signed metadata: no device takes it any more.

    A device that runs it goes on until a rollout gives it another one.
    """
    from edge_runtime.protocol.release import target_path
    from fleet_server.releases.drafting import propose_revocation
    from fleet_server.releases.repository import read_repository

    file = read_repository(repository)
    target = target_path(kind_of(kind), name, counter)
    proposal = propose_revocation(
        file, known_repository(file, keys, root), target, reason=reason, now_ms=now_ms()
    )
    sign_and_write(proposal, out, keys, passphrase_file, root)


def inspect(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A proposal, or a packed release.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Show what a proposal would do, or what a packed release holds. Nothing is believed, only shown."""
    from fleet_server.releases.packing import read_bundle
    from fleet_server.releases.proposal import missing, read_proposal
    from fleet_server.releases.repository import terms_of, verified

    try:
        found = read_proposal(path)
    except ConfigError:
        bundle = read_bundle(path)
        if json:
            write_json(bundle.model_dump(mode="json"))
            return
        write(f"{bundle.kind.value} {bundle.name}, {len(bundle.files)} files, {size(bundle.total_bytes)}")
        for file in bundle.files:
            write(f"  {file.sha256[:12]}  {size(file.bytes):>9}  {file.path}")
        return
    base, documents = verified(found.base, None), found.parsed()
    lacking = missing(base, documents)
    target = next(
        (
            one.signed.targets[found.target]
            for one in documents.values()
            if found.target in one.signed.targets
        ),
        None,
    )
    terms = None if target is None else terms_of(target).model_dump(mode="json")
    if json:
        write_json({"kind": found.kind.value, "target": found.target, "terms": terms, "missing": lacking})
        return
    write(f"{found.kind.value}  {found.target or '-'}")
    for line in [] if terms is None else terms_lines(terms):
        write(line)
    if found.reason:
        write(f"reason      {found.reason}")
    for role, count in lacking.items():
        write(f"missing     {count} signatures on {role}")


def kind_of(text: str) -> Any:
    """A kind of release by its name.

    Raises:
        ConfigError: there is none of that name.
    """
    from edge_runtime.protocol.release import ReleaseKind

    try:
        return ReleaseKind(text)
    except ValueError:
        raise ConfigError("--kind is model or configuration") from None
