"""The plan: the same measurements on every rig. Limits stand here; a rig's file may have others."""
