"""Rig `sim`: one device in this process, on a clock of its own that runs as fast as it can.

Real are the guard's state machine, the motion gate's judge, the camera's watch and content check, the tracker, the
rules and their events, the monitor's judgement over a tree that looks like /sys, the thermal governor, the policy's
decision, the outbox with its database, the fault injector, and of the updates everything but who signs, the
download and the models. Doubles are: the detector (detections are the truth of the drawn world), the loop around
each of these, perception's among them, the lease's memory, the uplink, the link, and the server's store.
"""
