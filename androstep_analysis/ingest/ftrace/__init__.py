"""Read the kernel's own tracing in all its formats: text, raw pages, `trace.dat`, systrace and atrace."""
