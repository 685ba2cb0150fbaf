"""The vendor's program that writes an image onto a board in recovery mode."""

from pathlib import Path

from hil.bench.commands import done_here, lacking_program
from hil.bench.records import Script

USB = Path("/sys/bus/usb/devices")


class ScriptFlasher:
    """`VendorScript`.

    Args:
        script: of the rig's file.
        usb: where the kernel shows what is plugged in.
    """

    def __init__(self, script: Script, usb: Path = USB) -> None:
        self._script, self._usb = script, usb

    def in_recovery(self) -> bool:
        """Whether a device with the ids of recovery mode is plugged in."""
        wanted = self._script.usb
        for place in self._usb.glob("*/idVendor"):
            try:
                ids = [
                    (place.parent / name).read_text(encoding="ascii") for name in ("idVendor", "idProduct")
                ]
            except OSError:
                continue  # it was unplugged meanwhile
            if ":".join(text.strip() for text in ids) == wanted:
                return True
        return False

    def flash(self) -> None:
        """Run the program to its end.

        Raises:
            RigError: it failed, or took too long.
        """
        done_here(self._script.command, self._script.within)

    def lacks(self) -> list[str]:
        """The program, where it is not here."""
        return lacking_program(self._script.command[0])

    @property
    def told(self) -> str:
        """What it runs."""
        return f"{' '.join(self._script.command)} for {self._script.usb}"
