"""Scenarios: a world, a device, a timeline of faults, and what is expected, with limits and units."""
