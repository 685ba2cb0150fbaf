"""The guard against faults of this very machine: real processes, broken on purpose, and how long it took to see."""
