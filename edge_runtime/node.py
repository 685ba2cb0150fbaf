"""The composition root: what runs on the device and how it is wired."""
