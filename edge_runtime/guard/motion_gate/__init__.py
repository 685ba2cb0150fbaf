"""The motion gate: a process that passes bounded commands to the actuator while the guard's lease is valid."""
