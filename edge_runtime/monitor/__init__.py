"""The monitor: looks at what the device runs on, keeps the flight recorder, and makes events of the guard's states.

One process beside the guard. `rounds` is its work, `conditions` its judgement, `recorder` and `flight` its files on
disk, and `adapters` where a robot's own software reports pose, map and batteries. It holds no permission.
"""
