"""What the device says of itself: temperatures, power, memory, disk, clock, and what it is being slowed down by."""
