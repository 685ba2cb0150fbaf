"""One module a revision, applied in the order that `down_revision` gives."""
