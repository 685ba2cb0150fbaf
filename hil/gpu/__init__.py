"""Checks of everything that needs an NVIDIA GPU, in one script."""
