"""System calls, which fill table `syscalls`: logs of strace, what others made of such, and calls in any recording."""
