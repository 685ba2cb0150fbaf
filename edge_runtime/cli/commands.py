"""The table of commands: a new command is one row here, a module beside it, and a line in docs/cli.md.

Nothing is imported until its row is chosen, so that `edge-runtime --help` stays under 0.3 s however heavy
the rooms behind the commands become.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

DONE_OR_FAILED: Mapping[int, str] = {0: "done", 1: "failed; the reason is on stderr"}


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One command or group of commands.

    Attributes:
        name: as typed.
        module: where it lives; imported when it is invoked.
        attribute: a `typer.Typer` (a group) or a function (one command) in that module.
        help: one line for `edge-runtime --help`.
        exits: per command path (`""` for the row itself, `"check"` for a member of a group), what its exit
            codes mean where they mean more than `EVERYWHERE` says.
    """

    name: str
    module: str
    attribute: str
    help: str
    exits: Mapping[str, Mapping[int, str]] = field(default_factory=lambda: {"": DONE_OR_FAILED})


COMMANDS: tuple[CommandRow, ...] = (
    CommandRow(
        "run",
        "edge_runtime.cli.run",
        "run",
        "Run cameras, models and rules of one configuration.",
        {
            "": {
                0: "every source ended, or a signal asked for the end",
                1: "a source or a model failed for good",
            }
        },
    ),
    CommandRow(
        "record",
        "edge_runtime.cli.record",
        "record",
        "Run a configuration and record what it is given, to be replayed.",
        {
            "": {
                0: "every source ended, a signal asked for the end, or the recording came to its end",
                1: "a source or a model failed for good, or the recording could not be written",
            }
        },
    ),
    CommandRow(
        "replay",
        "edge_runtime.cli.replay",
        "replay",
        "Replay a recording, and compare its events with a reference.",
        {
            "": {
                0: "replayed; the events are those of the reference, or there is none",
                1: "the recording, or the file to compare with, cannot be read",
                2: "the recording is one of another configuration or model, or an option cannot be used",
                3: "replayed, and the events differ from the reference",
            }
        },
    ),
    CommandRow(
        "config",
        "edge_runtime.cli.config",
        "app",
        "Check, describe or write a configuration file.",
        {
            "check": {0: "valid", 2: "not valid; every problem is on stderr with its place"},
            "schema": {0: "printed"},
            "init": {
                0: "written and checked",
                1: "the camera or the model could not be opened",
                2: "an answer is missing or cannot be used, or the file exists",
            },
        },
    ),
    CommandRow(
        "preflight",
        "edge_runtime.cli.preflight",
        "preflight",
        "Say whether a device with this configuration may go into the field.",
        {"": {0: "fit; warnings are printed", 1: "unfit; every reason is printed"}},
    ),
    CommandRow(
        "model",
        "edge_runtime.cli.model",
        "app",
        "Import, fetch, inspect, check and quantise model packages.",
        {
            "import": {0: "written", 1: "refused; the reason is one sentence on stderr"},
            "check": {0: "fit", 1: "unfit; every problem is printed"},
            "inspect": DONE_OR_FAILED,
            "pack": DONE_OR_FAILED,
            "fetch": {0: "the weights are there and match their digest", 1: "not obtained, or another file"},
            "quantize": {0: "written", 1: "refused; both figures are printed and nothing is written"},
        },
    ),
    CommandRow(
        "engine",
        "edge_runtime.cli.engine",
        "app",
        "Build TensorRT engines, list, inspect, verify and prune them.",
        {
            "build": {
                0: "every engine is there, loaded and proved",
                1: "one could not be built, loaded or proved; the reason is on stderr",
                2: "the target cannot be used as named, or TensorRT is not installed; nothing was done",
            },
            "list": {0: "printed, also where nothing is stored"},
            "inspect": {0: "printed", 1: "no engine has this key"},
            "verify": {0: "all are sound", 1: "one is not, or no engine has this key"},
            "prune": {
                0: "done, also where nothing had to go",
                1: "nothing was removed; the reason is on stderr",
            },
        },
    ),
    CommandRow(
        "enrol",
        "edge_runtime.cli.enrol",
        "enrol",
        "Make this device a member of a fleet.",
        {
            "": {
                0: "enrolled, or already enrolled with this token",
                1: "refused, not reachable, or another server than the token names; the reason is on stderr",
                3: "waits for an operator; run it again after `fleet device approve`",
            }
        },
    ),
    CommandRow(
        "gate",
        "edge_runtime.cli.gate",
        "app",
        "Review what is held, check a policy, explain a decision.",
        {
            "list": DONE_OR_FAILED,
            "show": {0: "shown", 1: "nothing of that name is held"},
            "release": {0: "on its way", 1: "refused; the reason is on stderr"},
            "drop": {0: "given up", 1: "refused; the reason is on stderr"},
            "receipts": DONE_OR_FAILED,
            "check": {0: "valid", 2: "not valid; every problem is on stderr with its place"},
            "starter": {0: "printed"},
            "explain": {0: "explained, whatever the decision is", 2: "the file holds no event"},
        },
    ),
    CommandRow(
        "guard",
        "edge_runtime.cli.guard",
        "app",
        "Speak to the guard that holds the permission to move, explain it, try it.",
        {
            "explain": {0: "explained", 1: "explained, and the guard would refuse this profile"},
            "ack": {
                0: "acknowledged: the latch is left, or the record is written",
                1: "the guard refuses it, or none answers",
                2: "the key or the record cannot be used, or the options do not go together",
            },
            "arm": {0: "it may move", 1: "refused, or no guard answers"},
            "disarm": {0: "nothing may move", 1: "it still may, or no guard answers"},
            "reset": {0: "reset", 1: "nothing to reset, another latch, or no guard answers"},
            "simulate": {
                0: "the script or the person came to the end",
                1: "the state is not the one that the script expects",
                2: "the profile, or a line of the script, cannot be understood",
            },
            "key new": {0: "made; the public part is printed", 2: "the file exists or cannot be written"},
            "key show": {0: "printed", 2: "it is no key, or its passphrase is missing or wrong"},
            "selftest": {0: "every fault was seen", 1: "one was not, or a command passed that must not"},
        },
    ),
    CommandRow(
        "status",
        "edge_runtime.cli.status",
        "status",
        "Say on one screen whether the device may move, and how it is.",
        {
            "": {
                0: "the guard answers, and it may move or stands by: NOMINAL, DEGRADED, STANDBY",
                1: "no guard answers; what else answers is printed",
                3: "nothing may move: INIT, STOPPED, SAFE, RECOVERY, LOCKOUT",
            }
        },
    ),
    CommandRow(
        "update",
        "edge_runtime.cli.update",
        "app",
        "Look at releases that the fleet assigned, and keep them waiting.",
        {
            "status": {
                0: "printed; the newest assignment of no slot was refused or taken back",
                1: "no process of updates answers; what it left on the disk is printed",
                3: "the newest assignment of a slot was refused or taken back: what ran before it runs",
                4: "one could not be taken back, and what runs is not what should",
            },
            "history": {0: "printed, also where nothing has ended"},
            "lock": {0: "locked", 2: "the name or the reason cannot be used; nothing was done"},
            "unlock": {0: "unlocked", 1: "there is no such lock"},
            "trust": {0: "trusted", 1: "it is no root, or another one is trusted; the reason is on stderr"},
        },
    ),
    CommandRow(
        "outbox",
        "edge_runtime.cli.outbox",
        "app",
        "Look at the queue of events that wait for the fleet server.",
        {
            "status": {0: "printed, also when it is degraded", 1: "it cannot be asked or opened"},
            "list": {0: "printed", 1: "it cannot be asked or opened"},
            "export": {0: "written", 1: "it cannot be asked or opened, or the file cannot be written"},
            "quarantine": {0: "printed or deleted", 1: "no such file, or it cannot be deleted"},
        },
    ),
    CommandRow(
        "recorder",
        "edge_runtime.cli.recorder",
        "app",
        "Read the flight recorder: states, causes and measurements of the last hours.",
        {
            "dump": {
                0: "printed; damaged lines are counted on stderr",
                1: "there is no flight recording",
            }
        },
    ),
    CommandRow(
        "health",
        "edge_runtime.cli.health",
        "app",
        "Read temperatures, power, memory, disk and clock; read logs of tegrastats.",
        {
            "": {0: "printed, whatever it says"},
            "parse": {
                0: "at least one line was understood; refused ones are counted on stderr",
                1: "the file cannot be read, or no line was understood",
            },
        },
    ),
    CommandRow(
        "fault",
        "edge_runtime.cli.fault",
        "app",
        "Make parts of a device on a bench fail, on purpose.",
        {
            "units": {0: "printed"},
            "inject": {
                0: "ordered; a device that runs does it within a second, another one once it runs",
                2: "refused: not on this device, not this combination, or not these values; nothing was done",
            },
            "list": {0: "printed"},
            "clear": {0: "nothing is injected any more"},
        },
    ),
    CommandRow(
        "doctor",
        "edge_runtime.cli.doctor",
        "doctor",
        "Say what this machine has for running models, and what it lacks.",
        {
            "": {
                0: "all that is needed is there; notes and warnings are printed",
                1: "something is missing that the configuration needs, or without one, no model could run",
                2: "the command line, the configuration or the file of facts cannot be used as named",
            }
        },
    ),
    CommandRow(
        "eval",
        "edge_runtime.cli.evaluate",
        "evaluate",
        "Measure a model package on a COCO-format set.",
        {"": {0: "measured", 1: "failed, or below the package's accuracy floor"}},
    ),
    CommandRow(
        "bench",
        "edge_runtime.cli.bench",
        "bench",
        "Measure every stage of a configuration against the bare model.",
    ),
)

EVERYWHERE: Mapping[int, str] = {
    0: "done",
    1: "failed, or refused; the reason is on stderr",
    2: (
        "the command line, the configuration or the state directory cannot be used as named, or an optional part "
        "is missing; nothing was done"
    ),
    70: "a defect in the runtime; EDGE_RUNTIME_DEBUG=1 shows the traceback",
    130: "interrupted from the keyboard before the command could end cleanly",
    143: "terminated by SIGTERM before the command could end cleanly",
}
"""Exit codes that mean the same for every command."""
