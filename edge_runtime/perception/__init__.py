"""Frames to tracks: preprocess, backends, decoders, tracking and the loop that overlaps them."""
