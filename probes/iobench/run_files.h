/* The files of a run: where they are, that they fit, and that nothing of them stays. */
#ifndef ANDROSTEP_IOBENCH_RUN_FILES_H
#define ANDROSTEP_IOBENCH_RUN_FILES_H

#include "iobench/bench.h"

/*
 * Makes the directory run->directory inside job->directory (made too where its parent exists), or takes job->filename
 * after its checks: an existing file that is read only, or may be overwritten; a block device only where job->raw is
 * set, nothing is mounted on it and nothing else holds it, and kept from others until files_leave. 0 or -1, complains.
 */
int files_enter(struct bench_run *run);

/*
 * Removes what files_enter made with all that is in it, by descriptors, without following links and without leaving the
 * filesystem; nothing of what was named or shall be kept. 0 or -1, complains.
 */
int files_leave(struct bench_run *run);

/* Removes `name` from the run's directory with all that is in it, where an earlier run left it. 0, or -1 with errno. */
int files_remove(const struct bench_run *run, const char *name);

/* Refuses where the filesystem has not `bytes` free (and a twentieth more); 0 or -1, complains. */
int files_room(const char *directory, int64_t bytes);

/*
 * Path of worker `worker`'s file in the run's directory ("test.dat0"), or of the one file all share, or job->filename.
 * 0, or -1 where it is longer than `size`.
 */
int files_path(const struct bench_run *run, int32_t worker, char *path, size_t size);

/*
 * Opens it with `flags` added: for reading where a named file is only read, else for reading and writing. -1 with errno
 * where it cannot be opened or is smaller than job->file.size; *why says what is wrong.
 */
int files_open(const struct bench_job *job, const char *path, int flags, const char **why);

/* layout.c: writes the file whole (not where a kept file is so already), allocates it, or cuts it to nothing; and
 * syncs it. 0, or -1 after it complained or where the run is stopping. */
int files_lay_out(const struct bench_job *job, const char *path, uint32_t worker);

#endif
