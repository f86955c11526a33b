/*
 * The directory that a replay happens in. Whatever a program's paths say and whoever plants links meanwhile: nothing
 * outside of it is opened, made, changed or removed.
 *
 * Paths are those of a replay_program: from the directory, "." for itself. Links are never followed: stat, readlink,
 * utimens, unlink, rename and link are about a link itself, the others refuse it, and all refuse one on the way
 * (ELOOP). Other mounts are not entered (EXDEV). All functions may be called by many threads of the process at once
 * (not by a child of it), and return 0 or more, or a negative errno. `flags` are this machine's.
 */
#ifndef ANDROSTEP_IOREPLAY_SANDBOX_H
#define ANDROSTEP_IOREPLAY_SANDBOX_H

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
    char *shown;     /* as the user named it */
    int parent;      /* directory that it lies in, for its removal */
    char *name;      /* there */
    int descriptors; /* /proc/self/fd: what was found is opened by its number, and nothing can take its place */
    struct beneath beneath;
    struct stat about;       /* of the directory as it was found or made */
    bool made;               /* by sandbox_enter */
    bool closed;             /* to others, by sandbox_enter, which changed its mode */
    bool has_lost_and_found; /* from the start: the filesystem's */
};

/* -- sandbox.c ---------------------------------------------------------------------------------------------------- */

/*
 * Makes `directory` or takes it where it is empty (but for lost+found) and belongs to this user; nobody else may enter
 * it until sandbox_leave, nor may another replay have it. NULL after it complained.
 */
struct sandbox *sandbox_enter(const char *directory);

/*
 * Removes what is in the directory, and the directory itself where sandbox_enter made it, unless `keep`. A directory
 * that was there gets its mode back. Returns 0, or -1 after it complained of what it could not remove.
 */
int sandbox_leave(struct sandbox *sandbox, bool keep);

/* The open directory itself. */
int sandbox_directory(const struct sandbox *sandbox);

/* -- paths.c ------------------------------------------------------------------------------------------------------ */

/*
 * The descriptor is O_CLOEXEC. Only files and directories are opened: devices, pipes and sockets are refused (ENXIO)
 * untouched, for nothing here makes them. Flags that a replay has no use for are refused (EINVAL): O_ASYNC and unknown
 * ones. Of `mode` the permissions count, here and below.
 */
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

/* The directory itself stays closed to others: EPERM. */
int sandbox_chmod(const struct sandbox *sandbox, const char *path, mode_t mode);
int sandbox_fchmod(const struct sandbox *sandbox, int descriptor, mode_t mode);

int sandbox_utimens(const struct sandbox *sandbox, const char *path, const struct timespec times[2]);

/* -- empty.c ------------------------------------------------------------------------------------------------------ */

/* Removes all that is in the directory (what is in lost+found, but not that itself). 0, or -1 after it complained. */
int sandbox_empty(const struct sandbox *sandbox);

/* What a mount's own directory may have from the start. */
#define LOST_AND_FOUND "lost+found"

/* -- populate.c --------------------------------------------------------------------------------------------------- */

/*
 * Makes the files that the program needs at its start, with contents that do not compress, syncs them and drops them
 * from the page cache. Returns 0, or -1 after it complained (also where the filesystem has no room for them), or was
 * told to end.
 */
int sandbox_populate(const struct sandbox *sandbox, const struct replay_program *program, replay_show *show);

/* Whether the page cache holds nothing of these files: 1, 0, or null where that is not known. */
int32_t sandbox_is_cold(const struct sandbox *sandbox, const struct replay_program *program);

#endif
