"""Head families: from output tensors to candidate boxes."""
