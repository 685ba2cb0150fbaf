"""What a node keeps and writes: events and, for some of them, crops."""

from typing import Annotated

from pydantic import Field

from edge_runtime.config.base import ConfigModel, Integer, Label, Real, Text
from edge_runtime.protocol import MAX_EVENT_BYTES


class EventsConfig(ConfigModel):
    """Where events go and how large one may be.

    Attributes:
        file: events are appended to it, one JSON object a line; relative to the configuration file.
        max_bytes: cap on one encoded event. Most take 650 to 900 bytes; the largest, with evidence and the
            longest names, 1,290. A cap that is too small for a rule's events is refused at the start.
        labels: names that events carry in place of a model's labels, by those; rules still name the model's own.
    """

    file: Text | None = None
    max_bytes: Annotated[Integer, Field(ge=1024, le=65_536)] = MAX_EVENT_BYTES
    labels: Annotated[dict[Label, Label], Field(max_length=4096)] = Field(default_factory=dict)


class EvidenceConfig(ConfigModel):
    """The ring of crops on disk.

    Attributes:
        directory: where the crops are kept, relative to the configuration file.
        quota_bytes: the oldest crops are deleted beyond this.
        max_bytes: one crop is at most this large; quality and then size go down until it fits.
        margin: added around the box, as a fraction of its size.
    """

    directory: Text
    quota_bytes: Annotated[Integer, Field(ge=65_536)] = 64 * 1024 * 1024
    max_bytes: Annotated[Integer, Field(ge=2048, le=4 * 1024 * 1024)] = 65_536
    margin: Annotated[Real, Field(ge=0, le=2)] = 0.15
