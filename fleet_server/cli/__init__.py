"""The command line, fleet."""
