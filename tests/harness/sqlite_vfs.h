// A VFS that does what SQLite's own for Unix does and logs every change of a file.
#ifndef SQLITE_VFS_H
#define SQLITE_VFS_H

#define SQLITE_VFS_NAME "logged"

// Paths in the log are relative to `root`. Call once per process.
void sqlite_vfs_register(const char *root);

#endif
