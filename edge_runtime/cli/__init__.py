"""The command line, edge-runtime."""
