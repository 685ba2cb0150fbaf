"""Hardware in the loop: one plan of measurements on a simulated device, on real processes, and on a bench."""
