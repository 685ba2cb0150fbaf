"""The fleet server: ingest, devices, releases, rollouts and escalation."""
