/* The directory of a replay. Nothing outside of it is opened, created, changed or removed: neither by paths of the
 * program nor by links that other processes create.
 *
 * Paths are those of a replay_program, relative to the directory; "." is the directory itself. Symbolic links are never
 * followed:
 * - stat, readlink, utimens, unlink, rename and link apply to the link itself; the other calls refuse it (ELOOP).
 * - A link within the path is refused by all calls (ELOOP).
 * - Other mounts are not entered (EXDEV).
 *
 * Many threads of the process may call these functions at once, but not a child process. They return 0 or more, or a
 * negative errno. `flags` have the values of this machine. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <time.h>

#include "ioreplay/beneath.h"
#include "ioreplay/filling.h"
#include "ioreplay/program.h"

struct sandbox {
    char *shown;     /* as given by the user */
    int parent;      /* its parent directory, for its removal */
    char *name;      /* in the parent */
    int descriptors; /* /proc/self/fd: found files are opened by their descriptor, so that they cannot be exchanged */
    struct beneath beneath;
    struct stat about;       /* of the directory when it was found or created */
    bool made;               /* created by sandbox_enter */
    bool closed;             /* sandbox_enter changed its mode to deny access to others */
    bool has_lost_and_found; /* the filesystem's, present from the start */
};

/* -- sandbox.c ---------------------------------------------------------------------------------------------------- */

/* Create `directory`, or use it if it is empty (except for lost+found) and owned by this user. It is closed to other
 * users until sandbox_leave, and locked against other replays. Returns NULL after printing an error. */
struct sandbox *sandbox_enter(const char *directory);

/* Remove the contents of the directory, and the directory itself if sandbox_enter created it, unless `keep`. Restores
 * the mode of an existing directory. Returns 0, or -1 after printing what could not be removed. */
int sandbox_leave(struct sandbox *sandbox, bool keep);

/* Return the descriptor of the directory. */
int sandbox_directory(const struct sandbox *sandbox);

/* -- paths.c ------------------------------------------------------------------------------------------------------ */

/* Open a file or directory with O_CLOEXEC. Devices, pipes and sockets are refused without opening them (ENXIO), because
 * a replay creates none. O_ASYNC and unknown flags are refused (EINVAL). Of `mode` only the permissions are used, here
 * and below. */
int sandbox_open(const struct sandbox *sandbox, const char *path, int flags, mode_t mode);

int sandbox_stat(const struct sandbox *sandbox, const char *path, struct stat *about);
int sandbox_access(const struct sandbox *sandbox, const char *path, int mode);
ssize_t sandbox_readlink(const struct sandbox *sandbox, const char *path, char *target, size_t room);
int sandbox_statfs(const struct sandbox *sandbox, const char *path, struct statfs *about);
int sandbox_truncate(const struct sandbox *sandbox, const char *path, off_t length);
int sandbox_mkdir(const struct sandbox *sandbox, const char *path, mode_t mode);
int sandbox_rmdir(const struct sandbox *sandbox, const char *path);
int sandbox_unlink(const struct sandbox *sandbox, const char *path);

/* `flags`: 0, RENAME_NOREPLACE or RENAME_EXCHANGE; else EINVAL. */
int sandbox_rename(const struct sandbox *sandbox, const char *path, const char *path2, unsigned int flags);

int sandbox_link(const struct sandbox *sandbox, const char *path, const char *path2);
int sandbox_symlink(const struct sandbox *sandbox, const char *target, const char *path);

/* The directory itself stays closed to others: changing its mode returns EPERM. */
int sandbox_chmod(const struct sandbox *sandbox, const char *path, mode_t mode);
int sandbox_fchmod(const struct sandbox *sandbox, int descriptor, mode_t mode);

int sandbox_utimens(const struct sandbox *sandbox, const char *path, const struct timespec times[2]);

/* -- empty.c ------------------------------------------------------------------------------------------------------ */

/* Remove the contents of the directory, including those of lost+found but not lost+found itself. Returns 0, or -1 after
 * printing an error. */
int sandbox_empty(const struct sandbox *sandbox);

/* The root directory of a filesystem may contain it from the start. */
#define LOST_AND_FOUND "lost+found"

/* -- populate.c --------------------------------------------------------------------------------------------------- */

/* Create the files that exist at the start of the program, with contents that do not compress, sync them and drop them
 * from the page cache. Returns 0, or -1 after printing an error, also if the filesystem is too small, or after a
 * request to stop. */
int sandbox_populate(const struct sandbox *sandbox, const struct replay_program *program, replay_show *show);

/* Return 1 if the page cache contains nothing of these files, 0 if it does, or null if it is unknown. */
int32_t sandbox_is_cold(const struct sandbox *sandbox, const struct replay_program *program);
