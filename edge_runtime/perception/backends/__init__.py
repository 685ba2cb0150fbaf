"""Inference backends behind one seam."""
