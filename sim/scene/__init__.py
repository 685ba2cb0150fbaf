"""A drawn world before a virtual camera, with the truth about what stands in it."""
