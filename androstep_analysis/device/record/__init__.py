"""Record, sample and measure on a device, and check what of that works there."""
