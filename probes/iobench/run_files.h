/* The files of a run: their paths, free space and complete removal. */
#pragma once

#include "iobench/bench.h"

/* Create the directory run->directory inside job->directory (which is also created if its parent exists), or check
 * job->filename. A named file must exist and be only read, or may be overwritten. A block device needs job->raw and
 * must not be in use; it is held exclusively until files_leave. Returns 0, or -1 after printing an error. */
int files_enter(struct bench_run *run);

/* Remove what files_enter created with all contents. Uses descriptors, follows no links and does not leave the
 * filesystem. Named and kept files stay. Returns 0, or -1 after printing an error. */
int files_leave(struct bench_run *run);

/* Remove `name`, left by an earlier run, from the run's directory with all contents. Returns 0, or -1 with errno
 * set. */
int files_remove(const struct bench_run *run, const char *name);

/* Check that the filesystem has `bytes` free, and a twentieth more. Returns 0, or -1 after printing an error. */
int files_room(const char *directory, int64_t bytes);

/* Write the path of a worker's file in the run's directory ("test.dat0"), of the shared file, or job->filename. Returns
 * 0, or -1 if it is longer than `size`. */
int files_path(const struct bench_run *run, int32_t worker, char *path, size_t size);

/* Open this file with additional `flags`: a named file that is only read for reading, any other for reading and
 * writing. Returns -1 with errno set if it cannot be opened or is smaller than job->file.size; *why describes the
 * error. */
int files_open(const struct bench_job *job, const char *path, int flags, const char **why);

/* layout.c: write the file whole (unless a kept file is complete), allocate it or truncate it, and sync it. Returns 0,
 * or -1 after printing an error or if the run is stopping. */
int files_lay_out(const struct bench_job *job, const char *path, uint32_t worker);
