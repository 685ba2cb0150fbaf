"""Recorded inputs through one component, or all that was recorded, and the events compared with a reference.

The same recording and the same configuration give the same bytes of events, as fast as they can be worked out.
"""
