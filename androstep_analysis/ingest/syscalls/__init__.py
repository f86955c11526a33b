"""Read system calls into table `syscalls`: from strace logs, from files made of such logs, and from trace events."""
