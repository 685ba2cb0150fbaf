"""Opens a rig by its kind; what a kind needs is imported when it is opened."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hil.rig import Rig
from hil.rig_file import RigFile


@contextlib.contextmanager
def opened(file: RigFile, folder: Path) -> Iterator[Rig]:
    """A rig whose device is on; nothing of it is left at the end.

    Args:
        file: that describes it.
        folder: for logs and state; empty.

    Raises:
        RigError: a part does not do what it is there for.
        ConfigError: this machine lacks something that the rig needs.
    """
    with contextlib.ExitStack() as stack:
        if file.kind == "sim":
            from hil.simulated.rig import open_simulated  # noqa: PLC0415

            yield open_simulated(file, folder, stack)
        elif file.kind == "local":
            from hil.local.rig import open_local  # noqa: PLC0415

            yield open_local(file, folder, stack)
        else:
            from hil.bench.rig import open_bench  # noqa: PLC0415

            yield open_bench(file, folder, stack)
