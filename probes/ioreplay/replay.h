/* The parts of ioreplay: where a replay takes place, how its operations are done, and what becomes of the results.
 *
 * Functions that return a number return 0 or more, or a negative errno, unless they say otherwise. */
#pragma once

#include <stdatomic.h>
#include <sys/statfs.h>

#include "common/payload.h"
#include "common/record.h"
#include "ioreplay/beneath.h"
#include "ioreplay/program.h"

/* -- shapes.c: properties of the calls in a program --------------------------------------------------------------- */

enum replay_need {
    UNUSED,
    MAY,
    MUST,
    NUMBER, /* a descriptor ID that need not be open */
};

enum replay_size {
    SIZE_NONE,
    SIZE_ANY,
    SIZE_MOVED, /* uses a buffer */
};

enum replay_moves { MOVES_NOTHING, MOVES_READ, MOVES_WRITTEN, MOVES_BOTH };

struct replay_shape {
    const char *name; /* as in operations.call */
    enum replay_need descriptor, descriptor2, path, path2, offset;
    enum replay_size size;
    enum replay_moves moves;
    int64_t flags;      /* all valid flags; asm-generic values */
    int32_t request;    /* largest value; 0: none */
    bool is_for_device; /* also valid for a block device */
};

extern const struct replay_shape replay_shapes[REPLAY_CALLS];

/* Return the direction of an operation. In copies between files only files of the program count. */
enum replay_moves replay_moves(const struct replay_operation *operation);

/* Return the bytes requested by an operation, limited to what Linux moves in one call. */
int64_t replay_moves_bytes(const struct replay_operation *operation);

/* Convert O_ flags from asm-generic values to those of this machine. Bits without a meaning for files, and those that
 * affect only the descriptor's process (O_CLOEXEC, O_NONBLOCK, O_NOCTTY, FASYNC), are dropped; O_LARGEFILE is always
 * set.
 *
 * Of all values in a program only these differ between the architectures of the probes: arm and aarch64 have their own
 * O_DIRECT, O_DIRECTORY, O_NOFOLLOW and O_LARGEFILE (arch/arm/include/uapi/asm/fcntl.h). */
int replay_open_flags(int64_t generic);

/* -- filling.c: contents of files before a replay ------------------------------------------------------------------ */

/* Receive the bytes done and in total. Returns false to stop early. */
typedef bool replay_show(int64_t done, int64_t all);

/* Data that does not compress, is the same in each replay, and differs from all writes. */
struct replay_filling {
    struct payload payload;
    unsigned char *chunk;
    int64_t done, all; /* bytes */
    replay_show *show;
};

void replay_filling_open(struct replay_filling *filling, int64_t all, replay_show *show);
void replay_filling_close(struct replay_filling *filling);

/* Write `bytes` at the current position of the file. Returns 1 if `show` stopped it. */
int replay_fill(struct replay_filling *filling, int file, int64_t bytes);

/* -- the directory of a replay ------------------------------------------------------------------------------------- */

/* Nothing outside of the directory is opened, created, changed or removed: neither by paths of the program nor by links
 * that other processes create.
 *
 * Paths are those of a replay_program, relative to the directory; "." is the directory itself. Symbolic links are never
 * followed:
 * - stat, readlink, utimens, unlink, rename and link apply to the link itself; the other calls refuse it (ELOOP).
 * - A link within the path is refused by all calls (ELOOP).
 * - Other mounts are not entered (EXDEV).
 *
 * Many threads of the process may use it at once, but not a child process. */
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

/* The root directory of a filesystem may contain it from the start. */
#define LOST_AND_FOUND "lost+found"

/* sandbox.c: create `directory`, or use it if it is empty (except for lost+found) and owned by this user. It is closed
 * to other users until sandbox_leave, and locked against other replays. Returns NULL after printing an error. */
struct sandbox *sandbox_enter(const char *directory);

/* Remove the contents of the directory, and the directory itself if sandbox_enter created it, unless `keep`. Restores
 * the mode of an existing directory. Returns 0, or -1 after printing what could not be removed. */
int sandbox_leave(struct sandbox *sandbox, bool keep);

/* paths.c: open a file or directory with O_CLOEXEC. Devices, pipes and sockets are refused without opening them
 * (ENXIO), because a replay creates none. O_ASYNC and unknown flags are refused (EINVAL). `flags` have the values of
 * this machine. Of `mode` only the permissions are used, here and below. */
int sandbox_open(const struct sandbox *sandbox, const char *path, int flags, mode_t mode);

/* Execute an operation of the program that takes a path, other than open. */
int64_t sandbox_do(const struct sandbox *sandbox, const struct replay_program *program,
                   const struct replay_operation *operation);

/* The directory itself stays closed to others: changing its mode returns EPERM, here and in sandbox_do. */
int sandbox_chmod(const struct sandbox *sandbox, const char *path, mode_t mode);
int sandbox_fchmod(const struct sandbox *sandbox, int descriptor, mode_t mode);

/* Return the permissions for a new file. */
mode_t replay_mode(const struct replay_operation *operation, mode_t otherwise);

/* empty.c: remove the contents of the directory, including those of lost+found but not lost+found itself. Returns 0, or
 * -1 after printing an error. */
int sandbox_empty(const struct sandbox *sandbox);

/* populate.c: create the files that exist at the start of the program, sync them and drop them from the page cache.
 * Returns 0, or -1 after printing an error, also if the filesystem is too small, or if `show` stopped it. */
int sandbox_populate(const struct sandbox *sandbox, const struct replay_program *program, replay_show *show);

/* Return 1 if the page cache contains nothing of these files, 0 if it does, or null if it is unknown. */
int32_t sandbox_is_cold(const struct sandbox *sandbox, const struct replay_program *program);

/* -- target.c: the target of a device-level program, a new file or a block device with permission ------------------ */

struct replay_target {
    const char *path;
    int file;
    bool is_device; /* else a file, removed at the end */
    bool direct;    /* direct I/O is possible */
    int64_t bytes;  /* of a file: bytes filled; else 0 */
};

/* Open block device `path` if `allowed` (NULL: none) names the same device and it is not in use (O_EXCL). Otherwise
 * create file `path`, which must not exist: as large as the program needs, with data in the ranges that the program
 * reads and writes, and out of the page cache. Returns 0, or -1 after printing an error or if `show` stopped it. */
int replay_target_enter(struct replay_target *target, const char *path, const char *allowed,
                        const struct replay_program *program, replay_show *show);
int replay_target_leave(struct replay_target *target, bool keep);

/* Return a new descriptor. Flags that create or truncate a file are dropped. */
int replay_target_open(const struct replay_target *target, int flags);

/* Discard bytes of an open block device. */
int replay_target_discard(int file, int64_t offset, int64_t bytes);

/* Return the bytes of the file to create. */
int64_t replay_target_needs(const struct replay_program *program);

/* -- transfer.c: transfers between files and the memory of a thread ------------------------------------------------ */

/* Buffer of one thread, sized for its largest operation. Larger transfers repeat the buffer in the vector of one
 * call. */
struct replay_buffer {
    char *memory; /* NULL: not needed by any operation */
    size_t capacity;
    struct rng rng;
};

/* Return the largest buffer size that keeps all threads within the limit. */
size_t replay_buffer_most(const struct replay_program *program);
void replay_buffer_open(struct replay_buffer *buffer, const struct replay_program *program, uint32_t thread,
                        size_t most);

/* Fill the buffer for a write. The data does not compress and differs from all earlier writes; only a write larger than
 * the buffer repeats it. */
void replay_buffer_prepare(struct replay_buffer *buffer, const struct replay_operation *operation);

/* Execute a transfer, by the recorded call if possible; `offset` null: at the current position. Returns the bytes
 * moved. */
int64_t replay_transfer(const struct replay_buffer *buffer, const struct replay_operation *operation, int file,
                        bool writes, int64_t offset);

/* -- descriptors.c: open files by the descriptor's ID in the program ----------------------------------------------- */

/* Any thread may use, open and close any of them at any time without a lock. A file is closed when its last running
 * call has ended, so that no call ever uses another file with the same descriptor of the kernel. */
struct replay_descriptors;

/* Create the table for IDs below `count`. */
struct replay_descriptors *replay_descriptors_make(uint32_t count);

/* Close all open files. No thread may use the table any more. */
void replay_descriptors_free(struct replay_descriptors *descriptors);

/* Transfer ownership of `file` to ID `number`, or close it if `number` is REPLAY_NONE. Returns 0, or -EBUSY and closes
 * the file if `number` is open already. */
int replay_descriptors_open(struct replay_descriptors *descriptors, int32_t number, int file);

/* Return the open file of `number` until replay_descriptors_unuse. Returns -EBADF if it is not open, and for
 * REPLAY_NONE. */
int replay_descriptors_use(struct replay_descriptors *descriptors, int32_t number);
void replay_descriptors_unuse(struct replay_descriptors *descriptors, int32_t number);

/* Close a file. Returns the result of close(2), or 0 if a running call closes it later. */
int replay_descriptors_close(struct replay_descriptors *descriptors, int32_t number);

/* -- mappings.c: mapped files -------------------------------------------------------------------------------------- */

/* A mapping is found by the descriptor it was created from and a file offset. It stays when the descriptor is closed.
 * Functions may be called by many threads at once. */
struct replay_mappings;

/* Create the table. Installs a handler of SIGBUS, so that accesses beyond the end of a file become errors. */
struct replay_mappings *replay_mappings_make(const struct replay_program *program);

/* Unmap everything that is still mapped. */
void replay_mappings_free(struct replay_mappings *mappings);

/* Map `file` for a CALL_MMAP operation. */
int replay_mappings_map(struct replay_mappings *mappings, const struct replay_operation *operation, int file);

/* Execute CALL_MUNMAP, CALL_MSYNC, CALL_MAPPED_READ or CALL_MAPPED_WRITE. Writes repeat the bytes of `buffer`. EINVAL:
 * no mapping. */
int64_t replay_mappings_do(const struct replay_mappings *mappings, const struct replay_operation *operation,
                           const struct replay_buffer *buffer);

/* -- calls.c: execution of one operation --------------------------------------------------------------------------- */

/* Context of a replay, shared by all threads. */
struct replay_place {
    const struct replay_program *program;
    const struct sandbox *sandbox; /* NULL: a device-level program with a target */
    const struct replay_target *target;
    struct replay_descriptors *descriptors;
    struct replay_mappings *mappings;
};

/* Return the result as in operations.result: a number of bytes, a position or 0. The buffer was prepared for this
 * operation. */
int64_t replay_do(const struct replay_place *place, const struct replay_buffer *buffer,
                  const struct replay_operation *operation);

/* -- order.c: dependencies between operations ---------------------------------------------------------------------- */

/* Waiting threads sleep. A thread is woken only when the last operation it waits for has ended. */
struct replay_order {
    atomic_uint *pending; /* of each operation: number of unfinished dependencies, and whether a thread sleeps */
    uint32_t *first;      /* of each operation: index of its first dependent; one more entry marks the end */
    const struct replay_dependency *dependencies;
};

void replay_order_make(struct replay_order *order, const struct replay_program *program);

/* Return whether all dependencies of an operation have ended. */
bool replay_order_ready(struct replay_order *order, uint32_t operation);

/* Sleep until the operation is ready, a signal arrives, or spuriously. */
void replay_order_sleep(struct replay_order *order, uint32_t operation);

/* Record that an operation has ended, and wake threads that waited only for it. */
void replay_order_ended(struct replay_order *order, uint32_t operation);

/* -- run.c: all threads of a program, each of which does its operations in order ----------------------------------- */

enum replay_mode { REPLAY_AS_RECORDED, REPLAY_AS_FAST, REPLAY_SCALED };

/* Result of an operation; columns of schemas/replay_ops.json. */
struct replay_outcome {
    int64_t start_ns, waited_ns, latency_ns, result;
};

struct replay_run {
    const struct replay_program *program;
    enum replay_mode mode;
    int64_t scale_ppm; /* of REPLAY_SCALED */
    struct replay_place place;
    struct replay_order order;
    struct replay_outcome *outcomes; /* in the order of program->thread_operations */
    uint32_t *done;                  /* completed operations of each thread */
    struct workers *workers;
    int64_t ts_ns, realtime_ns; /* start in CLOCK_BOOTTIME and CLOCK_REALTIME */
    int64_t duration_ns;        /* until the end of the last operation */
    int64_t cpu_user_ns, cpu_system_ns;
    bool interrupted;
    int32_t result; /* 0, or a negative errno if the replay could not start */
};

/* Allocate everything that run->program needs, or end the program: nothing was created yet. */
void replay_run_make(struct replay_run *run);

/* Return the due time of an operation since the start; null: as soon as possible. */
int64_t replay_due_ns(const struct replay_run *run, const struct replay_operation *operation);

/* Replay the program in run->place and fill in the results. `show` receives the number of completed operations about
 * twice a second. Returns 0, even if a signal ended it early, or -1 after printing an error. */
int replay_run(struct replay_run *run, void (*show)(int64_t done, int64_t all));

/* Return the outcome of an operation, or NULL if it was not done. */
const struct replay_outcome *replay_outcome(const struct replay_run *run, uint32_t operation);

/* Block SIGINT, SIGTERM and SIGHUP (unless ignored, as by nohup) in this thread and those created later. Broken pipes
 * and too large files become errors of the calls. */
void replay_stop_prepare(void);

/* Wait up to `wait_ns` for a signal. Returns whether a stop has ever been requested. */
bool replay_stop_requested(int64_t wait_ns);

/* -- results.c: results compared with the recording, summed up, recorded and printed ------------------------------- */

/* Settings and results of a replay. */
struct replay_report {
    const struct replay_run *run;
    char run_id[40];
    int64_t operations, done, inserted, diverged; /* inserted operations are only counted */
    int64_t files, files_bytes;                   /* existing before the start */
    const char *fs_type;                          /* NULL: unknown, or a device */
    const char *device;                           /* NULL: unknown */
    int32_t cold;                                 /* null: unknown */
};

/* Count the operations, and print a one-line summary; the host derives everything else from the records. Returns 0, or
 * -1 if it cannot be written. */
int replay_print(FILE *out, struct replay_report *report);

/* Write tables replay_runs and replay_ops. Returns 0, or -1 if the file cannot be written. */
int replay_record(struct record *out, const struct replay_report *report);
extern const struct record_probe replay_probe;

/* -- plan.c, sha256.c ---------------------------------------------------------------------------------------------- */

/* Resources that a program needs, determined without executing it. */
struct replay_plan {
    int64_t descriptors; /* most open at once, in the recorded order */
    int64_t files, files_bytes;
};

void replay_plan_make(struct replay_plan *plan, const struct replay_program *program);

/* Raise the limit of open files for the program. Must be called before threads are created. Returns 0, or -1 after
 * printing an error if the limit is too low. */
int replay_plan_allow_descriptors(const struct replay_plan *plan, uint32_t nr_threads);

/* Print the plan. Returns -1 if it cannot be written. */
int replay_plan_print(FILE *out, const struct replay_plan *plan, const struct replay_program *program,
                      const char *name);

/* Write the SHA-256 (FIPS 180-4) of `length` bytes as hexadecimal digits with a NUL. */
void sha256_of(const void *bytes, size_t length, char digits[65]);
