"""What holds the permission to move, and takes it away when anything is late, dead, wrong, hot, empty or unknown.

Nothing is exported here: a worker imports `edge_runtime.guard.page` to beat, and must not load the state machine
with it. Import from the modules.
"""
