// A VFS that wraps SQLite's Unix VFS and logs every change of a file.
#ifndef SQLITE_VFS_H
#define SQLITE_VFS_H

#define SQLITE_VFS_NAME "logged"

// Registers the VFS, once per process. Paths in the log are relative to `root`.
void sqlite_vfs_register(const char *root);

#endif
