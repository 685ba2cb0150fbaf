"""What is wanted of the fleet server: content, named by its digest."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Want:
    """One blob that a release needs and this device lacks.

    Attributes:
        sha256: of the content, 64 lower-case hexadecimal digits; also its name on the server and in the store.
        length: bytes, as the signed bundle says.
        target: path in the repository, `models/people/7/bundle.json`; None for a file of a release. They
            are asked for at different places.
    """

    sha256: str
    length: int
    target: str | None = None
