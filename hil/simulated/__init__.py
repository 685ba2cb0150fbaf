"""Rig `sim`: the simulated device of `sim.simulated` on its own clock, with a plug, a cable and a marker.

What is real and what is a double there is said in `sim.simulated`. Here: a power cut ends the device without a
word, and its files are closed as a process's are; whether a disk keeps what was flushed only a bench shows. Updates
are those of `sim.simulated.updates`. Boot means the guard and what it starts; there is no firmware and no kernel.
The camera sees a square and a marker. Long runs have a device without camera that stands still.
"""
