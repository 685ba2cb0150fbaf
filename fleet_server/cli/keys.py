"""`fleet keys`: the keys of people, which sign releases, made and changed away from the server.

No command here shows or sends a private key. What travels between people are small files: a person's public halves,
the repository as the server exports it, and proposals that are signed one after the other.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.errors import ConfigError
from fleet_server.cli.keys_export import export, online
from fleet_server.cli.keys_forms import end_lines, people_lines, plain, shown
from fleet_server.cli.output import say, write, write_json
from fleet_server.cli.passphrase import PassphraseFile, passphrase_of
from fleet_server.cli.target import Json

if TYPE_CHECKING:
    from fleet_server.releases.proposal import Proposal
    from fleet_server.releases.repository import Trusted

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make, change and show the fleet's keys.")

Repository = Annotated[
    Path, typer.Argument(metavar="REPOSITORY", help="What fleet keys export wrote.", show_default=False)
]
Out = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="The proposal to write.", show_default=False)
]
Keys = Annotated[
    Path, typer.Option("--keys", metavar="DIR", help="Your directory of keys.", show_default=False)
]
RootOption = Annotated[
    str | None,
    typer.Option(
        "--root",
        metavar="FINGERPRINT",
        help="Of a root of the fleet, from somebody who trusts it; once, for who has not seen it.",
    ),
]
Persons = Annotated[
    list[Path] | None,
    typer.Option("--person", metavar="FILE", help="NAME.public.json of a person. May be repeated."),
]


def now_ms() -> int:
    """The wall clock, milliseconds since 1970."""
    return SystemClock().wall().unix_ns // NS_PER_MS


@app.command()
def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="New or empty; yours alone.", show_default=False)
    ],
    holder: Annotated[
        str, typer.Option("--holder", metavar="NAME", help="Short name of the person.", show_default=False)
    ],
    preset: Annotated[
        str, typer.Option("--preset", metavar="PRESET", help="single, team or offline.")
    ] = "team",
    duty: Annotated[
        list[str] | None,
        typer.Option(
            "--duty", metavar="DUTY", help="Only keys for root, targets or release. May be repeated."
        ),
    ] = None,
    repository: Annotated[
        Path | None,
        typer.Option(
            "--repository", metavar="FILE", help="With --preset single: also begin the fleet's repository."
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Make the keys of one person. Private halves stay in DIR, under the passphrase.

    With the preset single and a repository file, the fleet's first proposal is made and signed as well:
    DIR/first.proposal is then ready for fleet release publish.
    """
    from fleet_server.releases.ceremony import begin as begin_with
    from fleet_server.releases.key_directory import KeyDirectory
    from fleet_server.releases.proposal import write_proposal
    from fleet_server.releases.repository import read_repository
    from fleet_server.releases.review import review, sign_everything
    from fleet_server.releases.roles import Preset

    chosen = _preset(preset)
    keys = _duties(duty) if duty else chosen.keys()
    if repository is not None and chosen is not Preset.SINGLE:
        raise ConfigError("--repository begins a fleet of one person; with more, use fleet keys begin")
    file = None if repository is None else read_repository(repository)
    passphrase = passphrase_of(passphrase_file, new=True)
    made = KeyDirectory.create(directory, holder, keys, passphrase)
    for key in made.person.keys:
        say(f"  key {key.keyid[:16]} for {', '.join(found.value for found in key.duties)}")
    if file is None:
        write(f"{made.public_file}")
        say("give this file to whoever puts the keys together; keep a copy of the directory in another place")
        return
    proposal = begin_with(file, chosen, [made.person], now_ms())
    signed, _ = sign_everything(proposal, review(proposal, made, None, now_ms()), made, passphrase)
    out = directory / "first.proposal"
    write_proposal(out, signed)
    write(f"{out}")
    say(f"ready: fleet release publish {out}; keep a copy of the directory in another place")


@app.command()
def begin(
    repository: Repository,
    out: Out,
    person: Persons = None,
    preset: Annotated[
        str, typer.Option("--preset", metavar="PRESET", help="single, team or offline.")
    ] = "team",
) -> None:
    """Propose the first keys of a fleet, from the public halves of its people and of its server."""
    from fleet_server.releases.ceremony import begin as begin_with
    from fleet_server.releases.people import joined, read_person
    from fleet_server.releases.repository import read_repository

    people = joined(read_person(path) for path in person or ())
    _propose(out, begin_with(read_repository(repository), _preset(preset), people, now_ms()), None)


@app.command()
def rotate(
    repository: Repository,
    out: Out,
    keys: Keys,
    person: Persons = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="NAME", help="Who leaves. May be repeated.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", metavar="PRESET", help="From now on: single, team or offline.")
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Take in the server's newest keys, of this export.")
    ] = False,
    root: RootOption = None,
) -> None:
    """Propose other keys: somebody comes, leaves or lost theirs, or the server has new ones."""
    from fleet_server.releases.ceremony import rotate as rotate_to
    from fleet_server.releases.people import joined, read_person
    from fleet_server.releases.repository import read_repository

    file = read_repository(repository)
    before = known_repository(file, keys, root)
    proposal = rotate_to(
        file,
        before,
        now_ms=now_ms(),
        people=joined(read_person(path) for path in person or ()),
        without=without or (),
        preset=None if preset is None else _preset(preset),
        online=online,
    )
    _propose(out, proposal, before)


@app.command()
def renew(
    repository: Repository,
    out: Out,
    keys: Keys,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role", metavar="ROLE", help="root, targets, models, configurations. May be repeated."
        ),
    ] = None,
    root: RootOption = None,
) -> None:
    """Propose the same metadata, good for longer: before it runs out, as fleet health warns."""
    from fleet_server.releases.ceremony import renew as renew_roles
    from fleet_server.releases.repository import read_repository

    file = read_repository(repository)
    before = known_repository(file, keys, root)
    _propose(out, renew_roles(file, before, role or (), now_ms()), before)


@app.command()
def sign(
    proposal: Annotated[
        Path, typer.Argument(metavar="PROPOSAL", help="Signed in place.", show_default=False)
    ],
    keys: Keys,
    passphrase_file: PassphraseFile = None,
    root: RootOption = None,
) -> None:
    """Sign a proposal of keys with all of yours that count for it."""
    from fleet_server.releases.key_directory import KeyDirectory
    from fleet_server.releases.proposal import ProposalKind, read_proposal, write_proposal
    from fleet_server.releases.review import review, sign_everything

    directory, found = KeyDirectory(keys), read_proposal(proposal)
    if found.kind is not ProposalKind.KEYS:
        raise ConfigError(f"{proposal} is about a release: fleet release approve signs it")
    reviewed = review(found, directory, root, now_ms())
    for line in people_lines(reviewed.after):
        say(line)
    signed, added = sign_everything(found, reviewed, directory, passphrase_of(passphrase_file))
    write_proposal(proposal, signed)
    say(f"{directory.person.holder} signed {', '.join(added)}")
    _say_missing(signed, reviewed.base, proposal)


@app.command()
def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A repository, a proposal of keys, or a person.", show_default=False
        ),
    ],
    json: Json = False,
) -> None:
    """Show whose keys a file names, and until when what they signed is good. Nothing is believed, only shown."""
    from fleet_server.releases.people import read_person

    if path.name.endswith(".public.json"):
        person = read_person(path)
        if json:
            write_json(person.model_dump(mode="json"))
            return
        for key in person.keys:
            write(f"{person.holder}  {key.keyid}  {', '.join(duty.value for duty in key.duties)}")
        return
    trusted, more = shown(path, now_ms())
    if json:
        write_json(plain(trusted) | more)
        return
    for line in (*people_lines(trusted), *end_lines(trusted)):
        write(line)
    for role, count in more.get("missing", {}).items():
        write(f"missing     {count} signatures on {role}")


app.command()(export)
app.command()(online)


def _preset(text: str) -> Any:
    from fleet_server.releases.roles import Preset

    try:
        return Preset(text)
    except ValueError:
        raise ConfigError("--preset is single, team or offline") from None


def _duties(texts: list[str]) -> tuple[tuple[Any, ...], ...]:
    from fleet_server.releases.roles import Duty

    try:
        return (tuple(dict.fromkeys(Duty(text) for text in texts)),)
    except ValueError:
        raise ConfigError("--duty is root, targets or release") from None


def known_repository(file: Any, keys: Path, root: str | None) -> "Trusted":
    """The repository of a file, as the person with these keys may believe it.

    Raises:
        EdgeRuntimeError: it is of another fleet, or of one without keys.
    """
    from fleet_server.releases.key_directory import KeyDirectory
    from fleet_server.releases.review import known

    found = known(file, KeyDirectory(keys), root)
    if found is None:
        raise ConfigError("this fleet has no keys yet: fleet keys begin makes the first proposal")
    return found


def _propose(out: Path, proposal: "Proposal", base: "Trusted | None") -> None:
    from fleet_server.releases.proposal import write_proposal
    from fleet_server.releases.repository import fingerprint

    write_proposal(out, proposal)
    write(f"{out}")
    documents = proposal.parsed()
    if "root" in documents:
        say(f"root {documents['root'].signed.version}: fingerprint {fingerprint(documents['root'])[:32]}")
    _say_missing(proposal, base, out)


def _say_missing(proposal: "Proposal", base: "Trusted | None", path: Path) -> None:
    from fleet_server.releases.proposal import missing

    lacking = missing(base, proposal.parsed())
    if lacking:
        roles = ", ".join(f"{count} on {role}" for role, count in lacking.items())
        say(f"signatures missing: {roles}; fleet keys sign {path} --keys DIR")
    else:
        say(f"signed by enough people: fleet release publish {path}")
