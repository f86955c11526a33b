"""Read Perfetto traces: packets of Protocol Buffers with the kernel's events and additional data of Android."""
