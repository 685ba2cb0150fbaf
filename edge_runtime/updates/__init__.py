"""Updates: what people signed and the server assigned becomes what this device runs, or is refused by name."""
