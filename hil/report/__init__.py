"""Reports: what a run measured, signed; two of them compared; all of them as a matrix."""
