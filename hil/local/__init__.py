"""Rig `local`: the real processes of `sim.local`, with a plug, a marker, a network and a server around them.

A power cut is SIGKILL for every process of the device at once: what was written to files stays, flushed or not,
which only a bench can take away. The camera gives two pictures a second and the machine is shared, so times say how
processes behave, and nothing about a board.
"""
