"""A reason in words: what is in the way, and what would change it."""

from edge_runtime.protocol.vocabulary import Reason

_SENTENCES = {
    Reason.PERMITTED: "a permit lets it go",
    Reason.RELEASED_BY_PERSON: "a person released it",
    Reason.DROPPED_BY_PERSON: "a person dropped it",
    Reason.NEVER_ESCALATE: "the policy's keep section says that it stays on the device",
    Reason.COALESCED: "it repeats an event of the same rule and camera within the permit's coalesce time",
    Reason.NO_POLICY: "there is no policy file; edge-runtime gate starter prints one to begin with",
    Reason.POLICY_UNREADABLE: "the policy file cannot be used; edge-runtime gate check FILE says why",
    Reason.CLASS_UNKNOWN: "its camera has no data class; write data_class under the camera in the configuration",
    Reason.NO_PERMIT: "no permit of the policy means it; a permit whose when section does would let it go",
    Reason.RECIPIENT_UNKNOWN: "the permit names a recipient that the policy does not have",
    Reason.RECIPIENT_REFUSES_CLASS: "a recipient of the permit does not accept its data class",
    Reason.RECIPIENT_REFUSES_PURPOSE: "a recipient of the permit does not take the permit's purpose",
    Reason.INPUT_MISSING: "something that the policy asks about is not known of this event, such as its label",
    Reason.EVENT_BUDGET_SPENT: "the permit's events_per_hour are spent for this rule; it waits for a person",
    Reason.EVIDENCE_BUDGET_SPENT: "the permit's evidence_bytes_per_hour are spent for this rule; no crop leaves",
    Reason.REDACTION_FAILED: "its crop could not be redacted without doubt",
    Reason.EVIDENCE_NOT_PERMITTED: "the permit lets no crop go; its evidence says none",
    Reason.EVIDENCE_MISSING: "its crop is no longer on the device, or is not the one that the event names",
    Reason.EVALUATION_FAILED: "the decision could not be made, which is a defect; the log says more",
}


def sentence(reason: Reason) -> str:
    """A reason as a clause for people."""
    return _SENTENCES[reason]
