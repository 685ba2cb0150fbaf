"""What recording costs the loop: handing a frame's outcome over, beside tracker and rules on the same outcomes.

The ratio is what counts: the loop does both on one thread, whose processor time is measured. Nothing is asserted.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

from edge_runtime.config import load_config
from edge_runtime.node.camera import CameraDesk
from edge_runtime.perception.pipeline import Evaluated
from edge_runtime.recording import Standing, open_recording
from edge_runtime.replay.player import Wish, replay
from tests.rigs.recordings import Field, walking, write_config

FRAMES = 3000


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = Field(
            load_config(write_config(folder)), folder / "recording" / "cameras-000001", bytes=256 << 20
        )
        outcomes = [
            Evaluated(run.frame(), walking(number, noise=run.noise), "model") for number in range(FRAMES)
        ]
        bare = _seconds(run.desk(), outcomes)
        held = threading.Event()
        with run.recorded(most_waiting=10 * FRAMES) as desk:
            run.writer.put(
                "note", lambda: {"waited": held.wait(600)}
            )  # first what handing over costs by itself
            taped = _seconds(desk, outcomes)
            held.set()
            begun = time.process_time()
        written = time.process_time() - begun
        size = sum(file.stat().st_size for file in run.folder.glob("*"))
        part, standing = open_recording(run.folder)[0], Standing()
        lost = run.ending.lost if run.ending else {}
        records = sum(1 for _ in part.records(standing))
        begun = time.thread_time()
        replay([part], Wish())
        again = time.thread_time() - begun
    write = sys.stdout.write
    write(f"tracker and rules      {bare / FRAMES * 1e6:7.1f} us a frame\n")
    write(f"the same, recorded     {taped / FRAMES * 1e6:7.1f} us a frame ({taped / bare:.2f} x)\n")
    write(f"written, on its thread {written / FRAMES * 1e6:7.1f} us a frame\n")
    write(f"replayed               {again / FRAMES * 1e6:7.1f} us a frame\n")
    write(f"{records} records, {size / records:.0f} bytes each, lost: {dict(lost) or 'none'}\n")


def _seconds(desk: CameraDesk, outcomes: list[Evaluated]) -> float:
    """Of this thread alone: what the recorder's thread does is not the loop's."""
    begun = time.thread_time()
    for outcome in outcomes:
        desk.take(outcome)
    return time.thread_time() - begun


if __name__ == "__main__":
    main()
