"""Virtual worlds for the real runtime: today the network between a device and its server."""
