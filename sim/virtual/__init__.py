"""A fleet in one process: state machines, trust and reports are the real ones, and only the bodies are not."""
