"""The table of commands: `--help` reads it, and a command's module is imported when it is invoked."""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.console import EXIT_INTERRUPTED, EXIT_SOFTWARE, EXIT_TERMINATED, EXIT_USAGE

EXIT_FAILED = 1
EXIT_NOT_FOUND = 3
EXIT_NOT_REACHABLE = 4
EXIT_NOT_PERMITTED = 5

# how a rollout stands: 0 is completed
EXIT_UNDER_WAY = 10
EXIT_NOT_STARTED = 11
EXIT_PAUSED = 12
EXIT_INCONCLUSIVE = 13
EXIT_HALTED = 14
EXIT_ROLLED_BACK = 15
EXIT_LEFT_BEHIND = 16
EXIT_CANCELLED = 17

# what became of it on one device: 0 is that it runs the release and is well
EXIT_NOT_PART = 20
EXIT_REFUSED = 21
EXIT_REVERTED = 22
EXIT_STUCK = 23
EXIT_NO_VERDICT = 24

EVERYWHERE: Mapping[int, str] = {
    0: "done",
    EXIT_FAILED: "failed, or refused by the server",
    EXIT_USAGE: "the command line, a file or the settings cannot be used as written; nothing was done",
    EXIT_NOT_FOUND: "there is no such device, event, item, token, release or rollout",
    EXIT_NOT_REACHABLE: "the server does not answer, or its certificate is not of the authority that was given",
    EXIT_NOT_PERMITTED: "the token is no good any more, its role does not permit this, or another person has to",
    EXIT_SOFTWARE: "a defect of this program; FLEET_DEBUG=1 shows the details",
    EXIT_INTERRUPTED: "interrupted (Ctrl-C)",
    EXIT_TERMINATED: "ended by SIGTERM",
}
"""Exit codes that mean the same for every command."""

_DONE = {0: "done"}
_STANDS = {
    0: "it is completed: every stage has passed",
    EXIT_UNDER_WAY: "it runs, or rolls back",
    EXIT_NOT_STARTED: "it has not started: it waits for an approval, for `start` or for its time",
    EXIT_PAUSED: "it is paused: no further device is offered the release, those that have the offer go on",
    EXIT_INCONCLUSIVE: "it is paused because a stage is inconclusive: too few devices have a verdict",
    EXIT_HALTED: "it is halted: devices that use the release keep it, every other offer is taken back",
    EXIT_ROLLED_BACK: "it is rolled back: every device that took it runs what it ran before",
    EXIT_LEFT_BEHIND: "it is rolled back, and some devices could not be sent back, which are named",
    EXIT_CANCELLED: "it is cancelled: devices that use the release keep it",
}


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
            "history": {0: "done, also where there is nothing"},
        },
    ),
    CommandRow(
        "rollout",
        "fleet_server.cli.rollout",
        "app",
        "Give a release to devices in stages, watch it, stop it and take it back.",
        {
            "plan": {0: "it can be created as it is", 1: "it would be refused, and why is shown"},
            "create": {0: "its devices are chosen, its id is on stdout", 1: "refused; nothing was chosen"},
            "approve": {0: "agreed to", 1: "it waits for no approval"},
            "start": {0: "it runs", 1: "it cannot start from its state"},
            "status": _STANDS,
            "pause": {0: "it is paused", 1: "it cannot be paused in its state"},
            "resume": {0: "it runs again", 1: "it is not paused, or nobody else has agreed yet"},
            "halt": {0: "it is halted", 1: "it cannot be halted in its state"},
            "rollback": {0: "it rolls back", 1: "it is not halted, or nobody else has agreed yet"},
            "cancel": {0: "it is cancelled", 1: "it cannot be cancelled in its state"},
            "explain": {
                0: "the device runs the release and is well",
                EXIT_UNDER_WAY: "it is on its way to it",
                EXIT_NOT_PART: "it is not part of the rollout, or of any",
                EXIT_REFUSED: "it refused, and is as it was",
                EXIT_REVERTED: "it tried, and runs what it ran before",
                EXIT_STUCK: "it is stuck on its way",
                EXIT_NO_VERDICT: "no verdict: superseded, withdrawn, unreachable or decommissioned",
            },
            "list": {0: "done, also where there are none"},
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
        "keys",
        "fleet_server.cli.keys",
        "app",
        "Make, change and show the keys that sign releases.",
        {
            "init": {0: "the keys are made", 1: "the proposal may not follow what is there"},
            "begin": {0: "the proposal is written, for people to sign"},
            "rotate": {0: "the proposal is written, for people to sign", 1: "the file is of another fleet"},
            "renew": {0: "the proposal is written, for people to sign", 1: "the file is of another fleet"},
            "sign": {
                0: "signed; whether signatures are missing is on stderr",
                1: "refused: it does not follow, no key here counts for it, or the passphrase is another one",
            },
            "inspect": _DONE,
            "export": _DONE,
            "online": {0: "the keys are made, and not yet in force"},
        },
    ),
    CommandRow(
        "release",
        "fleet_server.cli.release",
        "app",
        "Pack, sign, approve, publish and revoke releases of models and configurations.",
        {
            "pack": {0: "the release is written", 1: "something in the folder may not be in a release"},
            "sign": {
                0: "the proposal is written, and needs an approval",
                1: "refused, and nothing is written",
            },
            "approve": {
                0: "signed",
                1: "refused: it does not follow, the same person signed it, or the passphrase is another one",
            },
            "terms": {0: "the proposal is written, and needs an approval", 1: "refused, nothing is written"},
            "revoke": {0: "the proposal is written, and needs an approval", 1: "refused, nothing is written"},
            "publish": {
                0: "published, now or before",
                1: "refused by the server, and nothing is changed there",
            },
            "list": {0: "done, also where there are none"},
            "show": {0: "done", 3: "there is no such release"},
            "inspect": _DONE,
            "recover": {0: "the server goes on above these versions", 1: "there is no room above them"},
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
        "plan",
        "fleet_server.cli.planner",
        "app",
        "Plan memory, cost, latency and placement, exactly, from numbers with units.",
        {
            "memory": {0: "it fits, or no machine was named", 1: "it does not fit"},
            "cache": _DONE,
            "quantisation": _DONE,
            "throttle": _DONE,
            "speculative": {0: "done", 1: "it is not possible with these models"},
            "breakeven": {0: "done, also where there is no break-even"},
            "utilisation": _DONE,
            "latency": {0: "done, also where a limit is broken"},
            "placement": {0: "done, also where no place fits"},
        },
    ),
    CommandRow(
        "backup",
        "fleet_server.cli.backup",
        "app",
        "Back up a server, verify a backup, and restore it.",
        {
            "create": {
                0: "the backup is whole, and its folder is on stdout",
                1: "there is no new backup, or older ones could not be deleted: the error says which",
            },
            "list": {0: "done, also where there are none"},
            "verify": {0: "it is what it was when it was made", 1: "it is damaged, and what of it"},
            "restore": {
                0: "the directory is made, and a server can run on it",
                1: "the backup is damaged, or the disk or the database refuses; nothing was made",
                2: "it is no backup, the directory or the database is not empty, or it is of a newer release",
            },
        },
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
