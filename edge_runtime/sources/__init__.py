"""Cameras and files to frames."""
