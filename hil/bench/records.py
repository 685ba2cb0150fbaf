"""What a bench's file says about its drivers. Nothing here is bound to hardware; `hil.bench.binding` does that."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sim.scenario.records import PositiveSeconds, Record

Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,252}$")]
UserName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]
Interface = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,15}$")]


class SwitchCommands(Record):
    """Switched by two commands of this machine: a vendor's board automation, `snmpset`, a relay's tool."""

    driver: Literal["command"]
    on: Words
    off: Words
    settles: PositiveSeconds = 1.0
    within: PositiveSeconds = 30.0


class LabgridPart(Record):
    """Something that labgrid reaches.

    Attributes:
        resource: class of labgrid's resource, such as `NetworkPowerPort`.
        values: its attributes.
        through: class of labgrid's driver on it.
        options: its attributes.
        settles: seconds until what was switched is so; capacitors hold a board up for some.
    """

    driver: Literal["labgrid"]
    resource: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]+$")]
    values: dict[str, Any] = Field(default_factory=dict)
    through: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]+$")]
    options: dict[str, Any] = Field(default_factory=dict)
    settles: PositiveSeconds = 5.0


class SerialDevice(Record):
    """A serial device of this machine. A path under `/dev/serial/by-id` names the adapter and not the order."""

    driver: Literal["serial"]
    device: Annotated[str, Field(pattern=r"^/dev/")]
    baud: Literal[9600, 19200, 38400, 57600, 115200, 230400, 460800, 921600] = 115200


class Ssh(Record):
    """A machine that OpenSSH reaches with a key; passwords are never asked for."""

    driver: Literal["ssh"] = "ssh"
    host: Host
    user: UserName
    port: Annotated[int, Field(ge=1, le=65_535)] = 22
    key: str | None = None


class Uhubctl(Record):
    """Ports of a hub that really cuts their supply (uhubctl's list of hubs); by the name of what is plugged in."""

    driver: Literal["uhubctl"]
    hub: Annotated[str, Field(pattern=r"^[0-9][0-9.-]*$")]
    ports: Annotated[
        dict[Annotated[str, Field(min_length=1)], Annotated[int, Field(ge=1, le=32)]], Field(min_length=1)
    ]


class Netem(Record):
    """`tc netem` on a gateway between device and server.

    Attributes:
        gateway: never the device, and never its only way to be reached.
        interface: of the gateway, towards the device.
    """

    driver: Literal["netem"]
    gateway: Ssh
    interface: Interface


class InterfaceCounter(Record):
    """Bytes that an interface of the gateway received from the device."""

    driver: Literal["interface"]
    gateway: Ssh
    interface: Interface


class Script(Record):
    """The vendor's own program for writing an image.

    Attributes:
        command: of this machine.
        usb: vendor and product that a device in recovery mode shows, `0955:7023`.
        within: seconds that it may take.
    """

    driver: Literal["script"]
    command: Words
    usb: Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]
    within: PositiveSeconds = 3600.0


class UpdateCommand(Record):
    """A command of this machine that has the fleet assign another release to the device, and prints its digest."""

    driver: Literal["command"]
    begin: Words
    slot: Annotated[str, Field(min_length=1, max_length=64)]
    within: PositiveSeconds = 120.0


Switch = Annotated[SwitchCommands | LabgridPart, Field(discriminator="driver")]


class BenchParts(Record):
    """Drivers by part."""

    power: Switch | None = None
    recovery_button: Switch | None = None
    console: Annotated[SerialDevice | LabgridPart, Field(discriminator="driver")] | None = None
    shell: Ssh | None = None
    usb: Uhubctl | None = None
    network: Netem | None = None
    byte_counter: InterfaceCounter | None = None
    marker: Switch | None = None
    shutter: Switch | None = None
    vendor_script: Script | None = None
    updates: UpdateCommand | None = None

    def given(self) -> list[Any]:
        """Names of the parts that have one."""
        return [name for name in type(self).model_fields if getattr(self, name) is not None]


class RuntimeCommands(Record):
    """How the runtime on the device is asked, over its shell.

    Attributes:
        program: its command.
        state: its state directory.
        config: its configuration; None where faults may not be injected there.
        events: file that it appends events to.
        package: of the model, on the device.
        images, annotations: COCO set on the device, for the accuracy.
        load: command on the device that hands events to the outbox; the number of them is added.
        at_server: command of this machine that prints how many events of the load the server has, and how many
            of them twice.
        passed: command on the device that prints how many commands the motion gate has passed.
        acknowledge: command of this machine that signs for a latch; the latch is added.
        kernel_log: command on the device that prints the kernel's log of this boot.
        service: unit of the guard, which the service manager starts again.
        privileged: in front of what only root may do; empty where the shell is root's.
    """

    program: Words = ("edge-runtime",)
    state: Annotated[str, Field(pattern=r"^/")]
    config: str | None = None
    events: str | None = None
    package: str | None = None
    images: str | None = None
    annotations: str | None = None
    load: Words | None = None
    at_server: Words | None = None
    passed: Words | None = None
    acknowledge: Words | None = None
    kernel_log: tuple[str, ...] = ()
    service: Annotated[str, Field(pattern=r"^[A-Za-z0-9@._-]+\.service$")] = "edge-runtime.service"
    privileged: tuple[str, ...] = ("sudo", "-n")

    @model_validator(mode="after")
    def _whole(self) -> "RuntimeCommands":
        if (self.images is None) != (self.annotations is None):
            raise ValueError("images and annotations go together")
        return self
