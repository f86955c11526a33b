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

CALLS = {
    "open": "path flags=open mode=created",
    "openat": "fd path flags=open mode=created",
    "openat2": "fd path",
    "creat": "path mode",
    "close": "fd",
    "close_range": "fd fd2 flags=closing",
    "read": "fd - bytes",
    "write": "fd - bytes",
    "pread64": "fd - bytes offset=64",
    "pwrite64": "fd - bytes offset=64",
    "readv": "fd",
    "writev": "fd",
    "preadv": "fd - - offset=low_high",
    "pwritev": "fd - - offset=low_high",
    "preadv2": "fd - - offset=low_high flags=transfer",
    "pwritev2": "fd - - offset=low_high flags=transfer",
    "lseek": "fd offset=signed request=whence",
    "_llseek": "fd offset=high_low - request=whence",
    "dup": "fd",
    "dup2": "fd fd2",
    "dup3": "fd fd2 flags=open_flags",
    "fcntl": "fd request=command",
    "fcntl64": "fd request=command",
    "flock": "fd request=locking",
    "rename": "path path2",
    "renameat": "fd path fd2 path2",
    "renameat2": "fd path fd2 path2 flags=renaming",
    "link": "path path2",
    "linkat": "fd path fd2 path2 flags=at",
    "symlink": "path path2",
    "symlinkat": "path fd2 path2",
    "unlink": "path",
    "unlinkat": "fd path flags=at",
    "mkdir": "path mode",
    "mkdirat": "fd path mode",
    "rmdir": "path",
    "mknod": "path mode",
    "mknodat": "fd path mode",
    "truncate": "path bytes",
    "truncate64": "path bytes=64",
    "ftruncate": "fd bytes",
    "ftruncate64": "fd bytes=64",
    "fallocate": "fd flags=allocation offset=64 bytes=64",
    "fsync": "fd",
    "fdatasync": "fd",
    "syncfs": "fd",
    "sync_file_range": "fd offset=64 bytes=64 flags=range_sync",
    "sync_file_range2": "fd flags=range_sync offset=64 bytes=64",
    "arm_sync_file_range": "fd flags=range_sync offset=64 bytes=64",
    "msync": "address bytes flags=memory_sync",
    "fadvise64": "fd offset=64 bytes request=advice",
    "fadvise64_64": "fd offset=64 bytes=64 request=advice",
    "arm_fadvise64_64": "fd request=advice offset=64 bytes=64",
    "readahead": "fd offset=64 bytes",
    "mmap": "address=pointer bytes request=protection flags=mapping fd=mapped offset",
    "mmap2": "address=pointer bytes request=protection flags=mapping fd=mapped offset=pages",
    "munmap": "address bytes",
    "mremap": "address bytes - flags=remapping",
    "mprotect": "address bytes request=protection",
    "pkey_mprotect": "address bytes request=protection",
    "madvise": "address bytes request=memory_advice",
    "remap_file_pages": "address bytes request=protection offset flags=mapping",
    "brk": "address=pointer",
    "mlock": "address bytes",
    "mlock2": "address bytes flags=number",
    "munlock": "address bytes",
    "sendfile": "fd fd2 address=pointer bytes",
    "sendfile64": "fd fd2 address=pointer bytes",
    "copy_file_range": "fd address=pointer fd2 address=pointer bytes flags=number",
    "splice": "fd address=pointer fd2 address=pointer bytes flags=splicing",
    "tee": "fd fd2 bytes flags=splicing",
    "vmsplice": "fd - - flags=splicing",
    "stat": "path",
    "stat64": "path",
    "lstat": "path",
    "lstat64": "path",
    "fstat": "fd",
    "fstat64": "fd",
    "newfstatat": "fd path - flags=at",
    "fstatat64": "fd path - flags=at",
    "statx": "fd path flags=statx request=statx_mask",
    "statfs": "path",
    "statfs64": "path",
    "fstatfs": "fd",
    "fstatfs64": "fd",
    "access": "path flags=access",
    "faccessat": "fd path flags=access",
    "faccessat2": "fd path flags=access",
    "chmod": "path mode",
    "fchmod": "fd mode",
    "fchmodat": "fd path mode",
    "fchmodat2": "fd path mode flags=at",
    "chown": "path",
    "chown32": "path",
    "lchown": "path",
    "lchown32": "path",
    "fchown": "fd",
    "fchown32": "fd",
    "fchownat": "fd path - - flags=at",
    "utime": "path",
    "utimes": "path",
    "futimesat": "fd path",
    "utimensat": "fd path - flags=at",
    "utimensat_time64": "fd path - flags=at",
    "getdents": "fd - bytes",
    "getdents64": "fd - bytes",
    "readlink": "path - bytes",
    "readlinkat": "fd path - bytes",
    "getcwd": "- bytes",
    "chdir": "path",
    "fchdir": "fd",
    "chroot": "path",
    "mount": "path path2 - flags=number",
    "umount": "path",
    "umount2": "path flags=unmounting",
    "swapon": "path flags=number",
    "swapoff": "path",
    "pivot_root": "path path2",
    "setxattr": "path - - bytes flags=number",
    "lsetxattr": "path - - bytes flags=number",
    "fsetxattr": "fd - - bytes flags=number",
    "getxattr": "path - - bytes",
    "lgetxattr": "path - - bytes",
    "fgetxattr": "fd - - bytes",
    "listxattr": "path - bytes",
    "llistxattr": "path - bytes",
    "flistxattr": "fd - bytes",
    "removexattr": "path",
    "lremovexattr": "path",
    "fremovexattr": "fd",
    "name_to_handle_at": "fd path - - flags=at",
    "open_by_handle_at": "fd - flags=open",
    "ioctl": "fd request=number",
    "pipe2": "- flags=open_flags",
    "bind": "fd",
    "connect": "fd",
    "listen": "fd",
    "accept": "fd",
    "accept4": "fd - - flags=accepting",
    "shutdown": "fd request=shutting",
    "getsockname": "fd",
    "getpeername": "fd",
    "getsockopt": "fd",
    "setsockopt": "fd",
    "send": "fd - bytes flags=message",
    "recv": "fd - bytes flags=message",
    "sendto": "fd - bytes flags=message",
    "recvfrom": "fd - bytes flags=message",
    "sendmsg": "fd - flags=message",
    "recvmsg": "fd - flags=message",
    "sendmmsg": "fd - - flags=message",
    "recvmmsg": "fd - - flags=message",
    "epoll_ctl": "fd request=epoll fd2",
    "epoll_wait": "fd",
    "epoll_pwait": "fd",
    "epoll_pwait2": "fd",
    "signalfd": "fd",
    "signalfd4": "fd - - flags=signal_descriptor",
    "socket": "request=socket_family flags=socket_type",
    "socketpair": "request=socket_family flags=socket_type",
    "eventfd2": "- flags=event_descriptor",
    "epoll_create1": "flags=epoll_descriptor",
    "inotify_init1": "flags=notify_descriptor",
    "timerfd_create": "request=clock flags=timer_descriptor",
    "timerfd_settime": "fd",
    "timerfd_gettime": "fd",
    "inotify_add_watch": "fd path flags=number",
    "inotify_rm_watch": "fd",
    "memfd_create": "- flags=memory_file",
    "pidfd_getfd": "fd fd2",
    "io_uring_enter": "fd",
    "io_uring_register": "fd",
    "clone": "flags=clone",
    "unshare": "flags=clone",
    "setns": "fd flags=clone",
    "execve": "path",
    "execveat": "fd path - - flags=at",
    "exit": "request=decimal",
    "exit_group": "request=decimal",
    "umask": "mode",
}
"""The arguments of each call, by the name that strace uses."""

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
