"""Hot swap: a model takes another's place while the cameras run, and nobody misses a frame for it."""
