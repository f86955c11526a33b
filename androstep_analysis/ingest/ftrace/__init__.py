"""The kernel's own tracing in every form that it is kept in: text, raw pages, `trace.dat`, systrace, atrace."""
