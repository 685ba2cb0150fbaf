"""Rig `local`: the real processes of a device and of a server on this machine, in real time, without root.

`edge-runtime run` under its guard, enrolled at `fleet serve` with its broker, a virtual camera that it opens over
HTTP, and a network between the two that can be made worse. The model is the demo's, and finds nothing in drawings:
what is measured here is how the processes behave, not what a detector sees.
"""
