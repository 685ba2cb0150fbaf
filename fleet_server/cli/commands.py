"""The table of commands: `--help` reads it, and a command's module is imported when it is invoked."""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.console import EXIT_INTERRUPTED, EXIT_SOFTWARE, EXIT_TERMINATED, EXIT_USAGE

EXIT_FAILED = 1
EXIT_NOT_FOUND = 3
EXIT_NOT_REACHABLE = 4
EXIT_NOT_PERMITTED = 5

EVERYWHERE: Mapping[int, str] = {
    0: "done",
    EXIT_FAILED: "failed, or refused by the server",
    EXIT_USAGE: "the command line, a file or the settings cannot be used as written; nothing was done",
    EXIT_NOT_FOUND: "there is no such device, event, item or token",
    EXIT_NOT_REACHABLE: "the server does not answer, or its certificate is not of the authority that was given",
    EXIT_NOT_PERMITTED: "the token is missing, unknown, expired or revoked, or its role does not permit this",
    EXIT_SOFTWARE: "a defect of this program; FLEET_DEBUG=1 shows the details",
    EXIT_INTERRUPTED: "interrupted (Ctrl-C)",
    EXIT_TERMINATED: "ended by SIGTERM",
}
"""Exit codes that mean the same for every command."""

_DONE = {0: "done"}


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One command or group.

    Attributes:
        module, attribute: where its function or typer group is.
        help: one line.
        exits: by command of the group (or `""`), what its own exit codes mean beyond the common ones.
    """

    name: str
    module: str
    attribute: str
    help: str
    exits: Mapping[str, Mapping[int, str]]


COMMANDS: tuple[CommandRow, ...] = (
    CommandRow(
        "init",
        "fleet_server.cli.init",
        "init",
        "Make the data directory of a new server: authority, certificates, database, admin token.",
        {"": {0: "the directory is made", 2: "it exists and is not empty, or cannot be made"}},
    ),
    CommandRow(
        "serve",
        "fleet_server.cli.serve",
        "serve",
        "Run the server: HTTP API, broker and ingest.",
        {
            "": {
                0: "ended by SIGTERM or SIGINT, with everything it had started",
                1: "a part did not start, and the line on stderr says which",
                2: "settings or an option cannot be used, or another server uses the directory",
            }
        },
    ),
    CommandRow(
        "health",
        "fleet_server.cli.health",
        "health",
        "Show the server, its devices and the balance of events on both sides.",
        {"": {0: "everything works and every event is accounted for", 1: "something does not, and is named"}},
    ),
    CommandRow(
        "device",
        "fleet_server.cli.device",
        "app",
        "Invite, list, accept, label and revoke devices.",
        {
            "invite": {0: "the token is on stdout"},
            "list": _DONE,
            "show": _DONE,
            "approve": {0: "accepted", 1: "nothing waits to be accepted, or another key than the one given"},
            "revoke": {0: "out at once"},
            "remove": {0: "removed"},
            "label": _DONE,
        },
    ),
    CommandRow(
        "events",
        "fleet_server.cli.events",
        "app",
        "Follow, list, show and export committed events.",
        {
            "tail": {0: "as many as asked for were shown"},
            "list": {0: "done, also where there are none"},
            "show": _DONE,
            "export": {0: "all that were meant are written"},
        },
    ),
    CommandRow(
        "review",
        "fleet_server.cli.review",
        "app",
        "List what devices hold for a person, and release or drop it.",
        {
            "list": {0: "done, also where there is nothing"},
            "release": {
                0: "the device released it, or with --wait 0: it will be asked",
                1: "the device refused or did not answer in time",
            },
            "drop": {
                0: "the device dropped it, or with --wait 0: it will be asked",
                1: "the device refused or did not answer in time",
            },
        },
    ),
    CommandRow(
        "audit",
        "fleet_server.cli.audit",
        "app",
        "List what operators did, and verify that nothing of it was changed.",
        {"list": _DONE, "verify": {0: "the chain is whole", 1: "it is broken, and where"}},
    ),
    CommandRow(
        "token",
        "fleet_server.cli.token",
        "app",
        "Create, list and revoke tokens of the HTTP API.",
        {
            "create": {0: "the token is on stdout"},
            "list": _DONE,
            "revoke": {0: "revoked", 1: "it is the last admin token"},
        },
    ),
)
"""In the order in which a new fleet needs them."""
