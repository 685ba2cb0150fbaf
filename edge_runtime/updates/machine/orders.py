"""What the machine wants done. Each order may be given again and again: done already, it changes nothing."""

from enum import Enum


class Order(str, Enum):
    """One thing to do for the work at hand.

    Attributes:
        FETCH: begin to bring the release into the store, by an errand.
        CANCEL: end the errand under way.
        LOAD: let perception load the release beside the one in use.
        SHADOW: let it run on live frames.
        REST: let it no longer do so.
        DISCARD: free it.
        BEGIN_TRIAL: write down that the slot's release is now this one, on trial.
        ACTIVATE: let perception put it in use.
        COMMIT: write down that it stays.
        SETTLE: let perception free the one before.
        RESTORE: write down that the last good one is the slot's again.
        REVERT: let perception put the one before in use again.
    """

    FETCH = "fetch"
    CANCEL = "cancel"
    LOAD = "load"
    SHADOW = "shadow"
    REST = "rest"
    DISCARD = "discard"
    BEGIN_TRIAL = "begin-trial"
    ACTIVATE = "activate"
    COMMIT = "commit"
    SETTLE = "settle"
    RESTORE = "restore"
    REVERT = "revert"
