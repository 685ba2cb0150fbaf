"""Staged rollouts: who gets a release when, whether a stage has passed, and what is done where it has not.

The records are imported from `records`, what acts from `service`: whoever only reads records needs no database.
"""
