"""Arithmetic before money is spent: memory, cost, latency and placement of models, exact, with units and sources.

Pure functions of stated inputs. Figures that others published lie in `facts.toml` with their source and are shown
as claims; what the inputs do not carry is refused and not guessed. Nothing here advises to buy, and nothing here
decides where data may go: that is policy's.
"""
