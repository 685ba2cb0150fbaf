"""Drives updates: ports, the loop, durable reports, and the sides to perception, the guard and people.

`Driver` needs no process and no thread: a simulated fleet runs thousands of them. Nothing is imported here, because
what a command line asks for must not load what only the process needs.
"""
