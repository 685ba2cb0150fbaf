"""A bench: a real device, switched, watched and spoken to by the drivers that its rig's file names."""
