"""The arguments of each system call, in the order in which the kernel receives them in registers.

An argument is ``column`` or ``column=how`` of table `syscalls`; ``-`` is an argument without a column. `how` is one of:

==============  ===================================================================================================
(none)          the type of the column: a descriptor, a path that an event reports, permissions, a number ``signed``
a signed number of register width ``64``          a number of 64 bits: two registers on a 32-bit machine, on arm
beginning with an even one ``low_high``    two registers on any machine; a 64-bit machine uses only the first
``high_low``    two registers, upper half first ``pages``       a number in units of 4096 bytes ``decimal``     a signed
number, as text ``pointer``     a number, or null if 0; for a file offset in memory, the address of the offset
``mapped``      a descriptor, if the mapping is not anonymous ``created``     permissions, if the preceding flags create
a file ``command``     the command of fcntl, and its last argument depending on the command otherwise       the name of
a set of words (`words`) ==============
===================================================================================================
"""

from __future__ import annotations

_ARGUMENTS = {
    "path flags=open mode=created": "open",
    "fd path flags=open mode=created": "openat",
    "fd path": "openat2 futimesat",
    "path mode": "creat mkdir mknod chmod",
    "fd": (
        "close readv writev dup fsync fdatasync syncfs fstat fstat64 fstatfs fstatfs64 fchown fchown32 fchdir "
        "fremovexattr bind connect listen accept getsockname getpeername getsockopt setsockopt epoll_wait "
        "epoll_pwait epoll_pwait2 signalfd timerfd_settime timerfd_gettime inotify_rm_watch io_uring_enter "
        "io_uring_register"
    ),
    "fd fd2 flags=closing": "close_range",
    "fd - bytes": "read write getdents getdents64 flistxattr",
    "fd - bytes offset=64": "pread64 pwrite64",
    "fd - - offset=low_high": "preadv pwritev",
    "fd - - offset=low_high flags=transfer": "preadv2 pwritev2",
    "fd offset=signed request=whence": "lseek",
    "fd offset=high_low - request=whence": "_llseek",
    "fd fd2": "dup2 pidfd_getfd",
    "fd fd2 flags=open_flags": "dup3",
    "fd request=command": "fcntl fcntl64",
    "fd request=locking": "flock",
    "path path2": "rename link symlink pivot_root",
    "fd path fd2 path2": "renameat",
    "fd path fd2 path2 flags=renaming": "renameat2",
    "fd path fd2 path2 flags=at": "linkat",
    "path fd2 path2": "symlinkat",
    "path": (
        "unlink rmdir stat stat64 lstat lstat64 statfs statfs64 chown chown32 lchown lchown32 utime utimes chdir "
        "chroot umount swapoff removexattr lremovexattr execve"
    ),
    "fd path flags=at": "unlinkat",
    "fd path mode": "mkdirat mknodat fchmodat",
    "path bytes": "truncate",
    "path bytes=64": "truncate64",
    "fd bytes": "ftruncate",
    "fd bytes=64": "ftruncate64",
    "fd flags=allocation offset=64 bytes=64": "fallocate",
    "fd offset=64 bytes=64 flags=range_sync": "sync_file_range",
    "fd flags=range_sync offset=64 bytes=64": "sync_file_range2 arm_sync_file_range",
    "address bytes flags=memory_sync": "msync",
    "fd offset=64 bytes request=advice": "fadvise64",
    "fd offset=64 bytes=64 request=advice": "fadvise64_64",
    "fd request=advice offset=64 bytes=64": "arm_fadvise64_64",
    "fd offset=64 bytes": "readahead",
    "address=pointer bytes request=protection flags=mapping fd=mapped offset": "mmap",
    "address=pointer bytes request=protection flags=mapping fd=mapped offset=pages": "mmap2",
    "address bytes": "munmap mlock munlock",
    "address bytes - flags=remapping": "mremap",
    "address bytes request=protection": "mprotect pkey_mprotect",
    "address bytes request=memory_advice": "madvise",
    "address bytes request=protection offset flags=mapping": "remap_file_pages",
    "address=pointer": "brk",
    "address bytes flags=number": "mlock2",
    "fd fd2 address=pointer bytes": "sendfile sendfile64",
    "fd address=pointer fd2 address=pointer bytes flags=number": "copy_file_range",
    "fd address=pointer fd2 address=pointer bytes flags=splicing": "splice",
    "fd fd2 bytes flags=splicing": "tee",
    "fd - - flags=splicing": "vmsplice",
    "fd path - flags=at": "newfstatat fstatat64 utimensat utimensat_time64",
    "fd path flags=statx request=statx_mask": "statx",
    "path flags=access": "access",
    "fd path flags=access": "faccessat faccessat2",
    "fd mode": "fchmod",
    "fd path mode flags=at": "fchmodat2",
    "fd path - - flags=at": "fchownat name_to_handle_at execveat",
    "path - bytes": "readlink listxattr llistxattr",
    "fd path - bytes": "readlinkat",
    "- bytes": "getcwd",
    "path path2 - flags=number": "mount",
    "path flags=unmounting": "umount2",
    "path flags=number": "swapon",
    "path - - bytes flags=number": "setxattr lsetxattr",
    "fd - - bytes flags=number": "fsetxattr",
    "path - - bytes": "getxattr lgetxattr",
    "fd - - bytes": "fgetxattr",
    "fd - flags=open": "open_by_handle_at",
    "fd request=number": "ioctl",
    "- flags=open_flags": "pipe2",
    "fd - - flags=accepting": "accept4",
    "fd request=shutting": "shutdown",
    "fd - bytes flags=message": "send recv sendto recvfrom",
    "fd - flags=message": "sendmsg recvmsg",
    "fd - - flags=message": "sendmmsg recvmmsg",
    "fd request=epoll fd2": "epoll_ctl",
    "fd - - flags=signal_descriptor": "signalfd4",
    "request=socket_family flags=socket_type": "socket socketpair",
    "- flags=event_descriptor": "eventfd2",
    "flags=epoll_descriptor": "epoll_create1",
    "flags=notify_descriptor": "inotify_init1",
    "request=clock flags=timer_descriptor": "timerfd_create",
    "fd path flags=number": "inotify_add_watch",
    "- flags=memory_file": "memfd_create",
    "flags=clone": "clone unshare",
    "fd flags=clone": "setns",
    "request=decimal": "exit exit_group",
    "mode": "umask",
}
"""The calls with each list of arguments, by the names that strace uses."""

CALLS = {name: arguments for arguments, names in _ARGUMENTS.items() for name in names.split()}
"""The arguments of each call."""

KERNEL_NAMES = {
    "newstat": "stat",
    "newlstat": "lstat",
    "newfstat": "fstat",
    "newuname": "uname",
    "mmap_pgoff": "mmap2",
    "llseek": "_llseek",
    "umount": "umount2",
    "oldumount": "umount",
    "sendfile64": "sendfile",
    "fadvise64_64": "fadvise64",
}
"""Calls that the kernel's events name after kernel functions on 64-bit machines. All remaining calls have their own
names.
"""

KERNEL_NAMES_32 = {"sendfile64", "fadvise64_64"}
"""Those that are distinct calls on 32-bit machines."""

OPENING = ("open", "openat", "openat2", "creat", "open_by_handle_at")
"""Calls that return a descriptor of the file that the kernel opens during the call."""

CREATING_TASKS = ("clone", "clone3", "fork", "vfork")
"""Calls that create a task. The task starts when the call returns."""

FLAGS_BY_TASK = ("clone3",)
"""Calls with their flags in memory. Only the task event contains them."""

NEVER_RETURNING = ("exit", "exit_group", "rt_sigreturn", "sigreturn")
"""Calls for which at least some kernels record no exit event."""

PAIRING = ("pipe", "pipe2", "socketpair")
"""Calls that create two descriptors."""

RECEIVING = ("recvmsg", "recvmmsg")
"""Calls that may receive descriptors."""

OTHERS = (*CREATING_TASKS, *PAIRING)
"""Calls that are known only in part, since their arguments are not all described."""

COMMANDS = {
    "decimal": (0, 8, 10, 1024, 1030, 1031),
    "descriptor": (2,),
    "open": (4,),
    "sealing": (1033,),
}
"""The type of the last argument of fcntl, by the numbers of its commands: a number, or words."""
