/*
 * Finding what lies beneath an open directory without leaving it: no link is followed, no mount entered, whatever
 * others move and plant there meanwhile.
 *
 * What is found is opened with O_PATH, which touches nothing: neither devices nor pipes notice. From Linux 5.6 on
 * openat2(2) finds it; before that, component is opened after component. A hard link looks like any other name of its
 * file: who may write to the directory can bring such a file in.
 *
 * All functions return 0 or more, or a negative errno. Paths are relative and have no component "", "." or ".." (EXDEV,
 * EINVAL), but for the path "." itself.
 */
#ifndef ANDROSTEP_IOREPLAY_BENEATH_H
#define ANDROSTEP_IOREPLAY_BENEATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct beneath {
    int directory;
    bool walks;    /* the kernel has no openat2 */
    dev_t device;  /* for walks: of the directory */
    int64_t mount; /* for walks: of the directory; -1: the kernel does not tell, and the device has to do */
};

/* Whether a path is as it must be: 0, or the error of all that is asked of it. */
int beneath_check(const char *path);

/* Chooses the way. A walk that knows no mount takes bind mounts of the same filesystem for a part of it. */
int beneath_begin(struct beneath *beneath, int directory);

/* An O_PATH descriptor of the file, directory or whatever it is; of a link only where `link`, else ELOOP. */
int beneath_find(const struct beneath *beneath, const char *path, bool link);

/*
 * An O_PATH descriptor of the directory that `path` lies in, or `directory` itself, for beneath_release; *name: the
 * last component. EBUSY for ".".
 */
int beneath_parent(const struct beneath *beneath, const char *path, const char **name);

void beneath_release(const struct beneath *beneath, int parent);

#endif
