"""The composition root: what runs on the device and how it is wired.

Nothing is exported here: the processes of the uplink and the monitor live in this room too, and must not load what
looks at cameras. Import from the modules.
"""
