"""How a rig does without a protection, for each rig that can.

Rig `sim` wires a device's parts itself and leaves one out. A real device has no switch for that: what rig `local`
takes away is what a configuration, a body's profile, the wiring around a device or a date can take away.
"""

from collections.abc import Mapping

from sim.scenario.records import Protection, Rig

WITHOUT: Mapping[Protection, Mapping[Rig, str]] = {
    "camera_watch": {
        "sim": "the conditions of cameras are not told to the guard",
        "local": "the body's profile ignores the conditions of cameras",
    },
    "content_check": {
        "sim": "nobody looks at pictures for being dark or frozen",
        "local": "the body's profile ignores dark and frozen pictures",
    },
    "health_watch": {
        "sim": "the monitor's conditions are not told to the guard",
        "local": "the body's profile ignores the monitor's conditions",
    },
    "governor": {
        "sim": "the thermal governor is not asked",
        "local": "guard.governor.enabled is false",
    },
    "outbox": {"sim": "events are sent at once, or never"},
    "receipts": {"sim": "an event is settled by being sent"},
    "unique_keys": {"sim": "the server stores a key as often as it comes"},
    "boot_clock": {
        "sim": "ages are measured by the wall clock",
        "local": "the clock that nobody sets follows the wall clock",
    },
    "policy_gate": {"sim": "the policy's decision is not obeyed"},
    "lease": {"sim": "a permission to move lasts until it is taken away"},
    "guard": {
        "sim": "commands do not pass the motion gate",
        "local": "the planner sends its commands straight to the drive",
    },
    "worker_watch": {"sim": "the guard does not look at its processes"},
    "service_manager": {
        "sim": "nobody starts a guard again",
        "local": "nobody starts a guard again",
    },
    "server_identity": {"sim": "the uplink believes whoever answers"},
    "renewal": {"local": "the certificate ended longer ago than the server's grace"},
    "probation": {"sim": "what perception counts of a new release is not shown to the machine"},
    "journal": {
        "sim": "what a slot runs is not on the disk yet when the power goes",
        "local": "what a slot runs is gone from the disk when the power comes back",
    },
}
