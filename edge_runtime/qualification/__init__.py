"""Is a model package fit to run: golden vectors, outputs, labels."""
