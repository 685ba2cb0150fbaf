"""`fleet release terms`: other terms for a release that is out, signed by the same people as the first."""

from typing import Annotated

import typer

from edge_runtime.clock import SystemClock
from fleet_server.cli.keys import Keys, Out, RootOption, known_repository, now_ms
from fleet_server.cli.passphrase import PassphraseFile
from fleet_server.cli.release_making import CounterArgument, Kind, NameArgument, RepositoryOption, kind_of
from fleet_server.cli.release_signing import sign_and_write
from fleet_server.cli.terms_options import (
    Hardware,
    NoRollback,
    Notes,
    Openings,
    RollbackTo,
    TermsOption,
    ways_back,
)


def terms(
    name: NameArgument,
    counter: CounterArgument,
    repository: RepositoryOption,
    keys: Keys,
    out: Out,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.", show_default=False)],
    kind: Kind = "model",
    opening: Openings = None,
    rollback_to: RollbackTo = None,
    no_rollback: NoRollback = False,
    hardware: Hardware = None,
    file: TermsOption = None,
    notes: Notes = None,
    passphrase_file: PassphraseFile = None,
    root: RootOption = None,
) -> None:
    """Propose other terms for a release that is out: when it opens, for what it fits, how it proves itself.

    Its content, name, counter and the bounds of its values stay. What is not given stays as well; what is given
    takes the place of all that was said about it. Somebody else approves it as they approve a release.
    """
    from edge_runtime.protocol.release import target_path
    from fleet_server.cli.terms_words import openings_of, read_terms
    from fleet_server.releases.drafting import Revision, propose_terms
    from fleet_server.releases.repository import read_repository, terms_of

    back = ways_back(rollback_to, none=no_rollback)
    given = read_terms(file)
    stated = {name: getattr(given, name) for name in given.model_fields_set}
    repository_file = read_repository(repository)
    before = known_repository(repository_file, keys, root)
    target = target_path(kind_of(kind), name, counter)
    if hardware:
        signed = before.releases().get(target)
        fit = stated.get("fit") or (given.fit if signed is None else terms_of(signed).fit)
        stated["fit"] = fit.model_copy(update={"hardware": tuple(hardware)})
    revision = Revision(
        **stated,
        rollback_to=back,
        openings=openings_of(opening, SystemClock()) if opening else None,
        notes=notes,
    )
    proposal = propose_terms(repository_file, before, target, revision, reason=reason, now_ms=now_ms())
    sign_and_write(proposal, out, keys, passphrase_file, root)
