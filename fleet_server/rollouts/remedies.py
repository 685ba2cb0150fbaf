"""What would change an answer of a device or of the planner: one sentence for each code, for whoever asks why."""

from collections.abc import Mapping

from edge_runtime.protocol.update import UpdateCode
from fleet_server.rollouts.states import Exclusion

_NEW_ASSIGNMENT = "nothing on the device: a newer assignment is made by itself, or by a new rollout"
_METADATA = "the device fetches the signed metadata again by itself; see fleet health for what has run out"
_RELEASE = "a release with other content: this one will not run there"
_MEASURED = "a better release, or another device's load; look at the device with edge-runtime update history"
_WAITS = "it goes on by itself; nothing has failed"
_TERMS = "a release whose terms people signed for such devices, or another device"

REMEDIES: Mapping[UpdateCode, str] = {
    UpdateCode.BAD_ENVELOPE: _NEW_ASSIGNMENT,
    UpdateCode.DIRECTOR_SIGNATURE: "this server's own key in the signed targets: fleet keys rotate --online FILE",
    UpdateCode.WRONG_DEVICE: "each machine with an identity of its own: fleet device invite, then enrol it anew",
    UpdateCode.WRONG_KEY: "the key that is known of this device: fleet device show, fleet device approve",
    UpdateCode.STALE_SEQUENCE: _NEW_ASSIGNMENT,
    UpdateCode.EXPIRED: "the device's connection and its clock; a newer assignment is signed by itself",
    UpdateCode.CLOCK: "the right time on the device: chronyc tracking or timedatectl there",
    UpdateCode.METADATA_UNAVAILABLE: "the device's way to this server over HTTPS",
    UpdateCode.METADATA_EXPIRED: _METADATA,
    UpdateCode.METADATA_ROLLBACK: "metadata above what the device has seen: fleet release recover",
    UpdateCode.METADATA_INVALID: "metadata that the keys of its root have signed; look for an attack first",
    UpdateCode.TARGET_UNKNOWN: "the release in the signed metadata: fleet release list says whether it was revoked",
    UpdateCode.TARGET_MISMATCH: "the release in the signed metadata is another than was planned: a new rollout",
    UpdateCode.HARDWARE: _TERMS,
    UpdateCode.ARCHITECTURE: _TERMS,
    UpdateCode.COMPUTE_CAPABILITY: _TERMS,
    UpdateCode.L4T: "other software on the board, or a release that is signed for this one",
    UpdateCode.TENSORRT: "another TensorRT on the device, or a release that is signed for this one",
    UpdateCode.RUNTIME: "another version of the runtime on the device",
    UpdateCode.COUNTER: "a release with a higher counter than the one that runs, or a rollback that it permits",
    UpdateCode.ROLLBACK_NOT_PERMITTED: "a release whose rollback_to names the older one: people sign that",
    UpdateCode.RING_CLOSED: "the time that its signed openings name; a server cannot open them sooner",
    UpdateCode.KNOWN_BAD: "a release with other content: this one failed there before",
    UpdateCode.SLOT_UNKNOWN: "a model of that name in the device's configuration",
    UpdateCode.LABELS: "a release that was signed to have other labels, or one with the labels that rules use",
    UpdateCode.VALUE_NOT_PERMITTED: "values within the bounds that the release's signed terms give for each",
    UpdateCode.LICENCE: "a licence that the device's configuration accepts, or another release",
    UpdateCode.NO_SPACE: "free space on the device's disk, or a larger quota in its updates section",
    UpdateCode.NO_MEMORY: _TERMS,
    UpdateCode.BYTE_BUDGET: "the next day of the device's byte budget, or a larger one in its configuration",
    UpdateCode.METERED: "a connection that is not metered, or leave for it in the device's configuration",
    UpdateCode.DOWNLOAD_NOT_FOUND: "the release's files on this server: fleet release show",
    UpdateCode.DOWNLOAD_FAILED: "the device's way to this server, or the files here; a new rollout tries again",
    UpdateCode.DOWNLOAD_TOO_SLOW: "a faster connection, or a lower least rate in the device's configuration",
    UpdateCode.DOWNLOAD_DEADLINE: "a faster connection, or a later deadline in the device's configuration",
    UpdateCode.CONTENT_MISMATCH: "files here that are what was signed: fleet release show",
    UpdateCode.EXECUTABLE_CONTENT: "a release without anything executable: none is ever taken",
    UpdateCode.BAD_BUNDLE: _RELEASE,
    UpdateCode.BAD_PACKAGE: _RELEASE,
    UpdateCode.BAD_CONFIGURATION: "a release, or values, that this device's configuration takes",
    UpdateCode.ENGINE_BUILD: "what the build said, in edge-runtime update history on the device",
    UpdateCode.GOLDEN_VECTORS: "a release that computes on this device what its builder computed",
    UpdateCode.LOAD: "what loading said, in edge-runtime update history on the device",
    UpdateCode.SHADOW_DISAGREES: "a release that agrees with the running one as its terms ask, or other terms",
    UpdateCode.SHADOW_SLOW: _MEASURED,
    UpdateCode.SHADOW_HOT: _MEASURED,
    UpdateCode.SHADOW_NO_DATA: "frames on its cameras: nothing was seen to compare on",
    UpdateCode.LOCKED: "edge-runtime update unlock on the device; until then it waits",
    UpdateCode.IN_MOTION: f"the body stands still; {_WAITS}",
    UpdateCode.OUTSIDE_WINDOW: f"the device's own window of maintenance; {_WAITS}",
    UpdateCode.ACTIVATION: "what the activation said, in edge-runtime update history on the device",
    UpdateCode.PROBATION_LATENCY: _MEASURED,
    UpdateCode.PROBATION_NONFINITE: _RELEASE,
    UpdateCode.PROBATION_EVENT_RATE: "a look at its events: the release reports many more, or fewer, than before",
    UpdateCode.PROBATION_CRASH: _RELEASE,
    UpdateCode.PROBATION_GUARD: "what tripped the guard: edge-runtime recorder dump on the device",
    UpdateCode.PROBATION_THERMAL: _MEASURED,
    UpdateCode.PROBATION_NO_DATA: "frames on its cameras: nothing was seen to judge by",
    UpdateCode.CRASH_LOOP: _RELEASE,
    UpdateCode.ROLLED_BACK: "nothing: it was asked to go back, and did",
    UpdateCode.DEADLINE: "what held it up, in edge-runtime update history on the device",
    UpdateCode.STATE_LOST: "nothing on the device: it lost its notes, kept its release, and takes a new assignment",
    UpdateCode.SUPERSEDED: "nothing: something newer took its place",
    UpdateCode.WITHDRAWN: "nothing: the offer was taken back",
    UpdateCode.DEFECT: "a report of the defect: edge-runtime update history on the device",
}

ENGINE: Mapping[str, str] = {
    "no-release-before": "a newer release: what it was set up with came with no release to go back to",
    "rollback-not-permitted": REMEDIES[UpdateCode.ROLLBACK_NOT_PERMITTED],
    "release-gone": "a newer release: the one before was revoked",
    "held": "nothing: the offer was taken back before it was in use",
}
"""What the engine says where a device could not be sent back (`rollouts/asking.py`)."""

EXCLUSIONS: Mapping[Exclusion, str] = {
    Exclusion.ALREADY_RUNNING: "nothing: it has it",
    Exclusion.NEWER_RUNS: "a newer release, or a rollback of the one that runs",
    Exclusion.INCOMPATIBLE: "a release that fits, or another device",
    Exclusion.BUSY: "the end of the other rollout: fleet rollout cancel, or wait for it",
    Exclusion.REVOKED: "a new enrolment: fleet device invite",
    Exclusion.NOT_APPROVED: "fleet device approve",
    Exclusion.NEVER_SEEN: "an updates section in its configuration, and a connection",
    Exclusion.NO_SUCH_SLOT: "a model of the slot's name in its configuration",
    Exclusion.NO_STAGE: "a last stage that takes every device",
}


def remedy(code: str | None) -> str:
    """What would change an answer of a device or of the engine; empty for no code or one that is not known."""
    if code is None or code in ENGINE:
        return ENGINE.get(code or "", "")
    try:
        return REMEDIES[UpdateCode(code)]
    except ValueError:
        return ""
