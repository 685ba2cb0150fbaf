"""What an engine is built for: the machine, as far as TensorRT ties an engine to it."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[\x20-\x7e]+$")]
"""A word or a name in printable ASCII, as drivers and TensorRT report them."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The machine that an engine is built on, and may be loaded on.

    Attributes:
        gpu: name of the device as CUDA gives it.
        sm: compute capability, such as `8.7`.
        tensorrt: full version, such as `10.3.0.26`.
        l4t: release of Jetson Linux, such as `36.4.3`; None on other machines.
        driver: version of the NVIDIA driver where it is known; on a Jetson it is part of `l4t`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, revalidate_instances="always"
    )

    gpu: Text
    sm: Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$")]
    tensorrt: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+){2,3}([.a-z0-9+-]{0,32})$", max_length=64)]
    l4t: Text | None = None
    driver: Text | None = None
