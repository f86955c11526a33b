"""Perfetto traces: packets of Protocol Buffers around the kernel's events and what Android adds to them."""
