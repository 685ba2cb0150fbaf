"""Rules that turn tracks into bounded events with lifecycle and deadlines."""
