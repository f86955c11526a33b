/* The parts of iotrace. */
#pragma once

#include "common/json.h"
#include "common/opts.h"
#include "common/record.h"
#include "common/topology.h"

/* -- tracefs.c ---------------------------------------------------------------------------------------------------- */

/* Access to tracefs, and trace instances of iotrace in it. */

/* Open tracefs as a directory. If it is not mounted, use a private mount that ends with the descriptor. Returns -1
 * after printing an error. */
int tracefs_open(void);

/* An instance under instances/ with the name androstep.PID.START.DIR. PID and START (the clock tick when the process
 * started) identify the process, so that instances of dead processes can be recognised. DIR is its output directory,
 * with %XX for characters other than letters and digits, or empty if it is too long. */
struct instance {
    int tracefs, dir;
    int held; /* an open file of it, which prevents its removal by others */
    char name[256];
    unsigned nr_cpus;
};

/* Create the instance of this process, with tracing off, to record into `output`. Returns -1 after printing an
 * error. */
int instance_create(struct instance *instance, int tracefs, const char *output);

/* Open an instance of another process. Returns -1 with errno set if there is none of this name. */
int instance_adopt(struct instance *instance, int tracefs, const char *name);

void instance_close(struct instance *instance);

/* Close and remove the instance with its events and buffers. Returns -1 with errno set; EBUSY: one of its files is
 * open. */
int instance_remove(struct instance *instance);

/* Return the output directory in the name of an instance (freed by the caller), or NULL if it has none. */
char *instance_output(const char *name);

/* List the names of instances of dead processes (each freed by the caller). Returns their number. */
size_t instances_dead(int tracefs, char ***names);

/* Return whether a running iotrace has an instance. */
bool instances_live(int tracefs);

/* An event to record; `filter` NULL: every occurrence. */
struct event {
    char *system, *name, *filter;
};

/* Return whether this kernel has the event. */
bool tracefs_has_event(int tracefs, const char *system, const char *name);

/* Set the event's filter. A filter that the kernel rejects is removed from `event`, and an error is printed. */
void instance_filter(const struct instance *instance, struct event *event);

/* Start or stop recording `event` in the instance. Returns -1 with errno set. */
int instance_enable(const struct instance *instance, const struct event *event, bool enable);

/* Exclude occurrences caused by thread `tid` from the event, or with 0 restore its filter. */
void instance_leave_out(const struct instance *instance, const struct event *event, int tid);

/* Per-CPU counters of the ring buffer, from per_cpu/cpuN/stats; counters that the kernel lacks are 0. */
struct cpu_stats {
    uint64_t entries, overrun, commit_overrun, dropped, read_events;
};

/* Return the file stats of a CPU (freed by the caller), or NULL if it cannot be read. */
char *instance_stats(const struct instance *instance, unsigned cpu);
struct cpu_stats cpu_stats(const char *text);

/* Copy the selected clock of trace_clock: the word in brackets, or "" if there is none. */
void trace_clock_name(const char *text, char *name, size_t size);

/* -- ringbuffer.c ------------------------------------------------------------------------------------------------- */

/* Pages of the kernel's ring buffer, as read from trace_pipe_raw. */

/* Layout of a page, from events/header_page. */
struct page_layout {
    size_t bytes;       /* size of a page */
    size_t commit;      /* offset of the length of its data */
    size_t commit_size; /* 4 or 8: size of a long in the kernel */
    size_t data;        /* offset of its data */
};

/* Parse `header_page`. Returns -1 if it is invalid. */
int page_layout_parse(const char *header_page, struct page_layout *layout);

/* Read the layout of this kernel's pages. Returns -1 after printing an error. */
int page_layout_read(int tracefs, struct page_layout *layout);

/* Count the events in a page, without padding and time stamps. Stops at damage. */
uint64_t page_events(const unsigned char *page, const struct page_layout *layout);

/* -- drain.c ------------------------------------------------------------------------------------------------------ */

/* Copies the ring buffers of a trace instance to one file per CPU. */
struct drain_cpu {
    int raw; /* trace_pipe_raw */
    int out;
};

struct drain {
    struct drain_cpu *cpus;
    unsigned nr_cpus;
    size_t page_bytes;
    int pipe[2];
    size_t pipe_bytes;
    uint64_t written;
};

/* Open per_cpu/cpuN/trace_pipe_raw of all CPUs, and files cpuN in directory `dir` to append to. Returns -1 after
 * printing an error. */
int drain_open(struct drain *drain, const struct instance *instance, int dir);

/* Move all full pages to the files. Returns the number of bytes from the fullest buffer of a CPU, or -1 after printing
 * an error. */
int64_t drain_pages(struct drain *drain);

/* Move everything recorded so far: like drain_pages, and also the partly filled page of each CPU. */
int64_t drain_now(struct drain *drain);

/* Move everything, including partly filled pages. Called after tracing has stopped. */
int drain_rest(struct drain *drain);

/* Truncate the files of all CPUs after their pages were saved elsewhere. */
int drain_restart(struct drain *drain);

void drain_close(struct drain *drain);

/* -- presets.c ---------------------------------------------------------------------------------------------------- */

/* Selection of tracepoints for a recording. */
enum preset { PRESET_BLOCK, PRESET_FS, PRESET_SYSCALLS };
extern const char *const preset_names[];

struct selection {
    struct event *events;
    size_t nr_events;
    char **absent; /* events in the preset that this kernel lacks */
    size_t nr_absent;
};

/* Conditions for events other than the preset. */
struct needs {
    const struct topology *topology; /* with the traced devices marked */
    bool listed;                     /* existing extents are listed at the start */
    bool skip_self;                  /* this process writes to a traced filesystem */
    bool readahead;                  /* record which of the pages read in are requested */
};

/* Select the tracepoints of `preset` that `tracefs` has for the filesystems on the traced devices, without those of
 * calls.c and dynprobes.c. */
void selection_make(struct selection *selection, int tracefs, enum preset preset, const struct needs *needs);
void selection_free(struct selection *selection);

/* Add an event that is not in the preset tables. Takes ownership of `filter`. */
void selection_add(struct selection *selection, const char *system, const char *name, char *filter);

/* Add an event to the absent ones. */
void selection_miss(struct selection *selection, const char *system, const char *name);

/* Add an event if `tracefs` has it, or else to the absent ones. Takes ownership of `filter`. */
void selection_choose(struct selection *selection, int tracefs, const char *system, const char *name, char *filter);

/* Sort the events by system and name. Called after the last one was added. */
void selection_sort(struct selection *selection);

/* Return an event filter that compares `field` with the traced devices; NULL if no device is traced. */
char *filter_devices(const struct topology *topology, const char *field);

/* Return an event filter that excludes this process. */
char *filter_others(void);

/* Return whether such a filesystem is mounted on a traced device, or none is mounted there yet. */
bool traces_filesystem(const struct topology *topology, bool (*is_type)(const char *fs_type));

/* Return whether the driver of ext4 handles this type, which includes ext2 and ext3. */
bool is_ext(const char *fs_type);

/* Return whether this type of filesystem has no tracepoints with file extents. */
bool is_without_extent_events(const char *fs_type);

/* Return whether listing files causes one or more of this event for each file. */
bool event_has_extents(const struct event *event);

/* -- calls.c ------------------------------------------------------------------------------------------------------ */

/* System calls recorded by preset block+fs+syscalls: those that a replay of file I/O needs. */

/* Add the events of these calls to `selection`: a pair for each call, or raw_syscalls for all of them if the kernel
 * lacks CONFIG_FTRACE_SYSCALLS. Calls of iotrace itself are excluded. */
void calls_select(struct selection *selection, int tracefs);

/* The part of a system call that an event records; NO_CALL: the event belongs to devices, filesystems or threads. */
enum call_part { NO_CALL, CALL_BEGINS, CALL_GOES_ON };
enum call_part event_call_part(const struct event *event);

/* Write member `syscall_numbers`: the calls by number in raw_syscalls; null if no such event is selected. */
void calls_json(struct json *json, const struct selection *selection);

/* -- btf.c -------------------------------------------------------------------------------------------------------- */

/* Type information of the kernel (BTF, Documentation/bpf/btf.rst): offsets of the members of its structs. */
struct btf;

/* Read `path`, normally /sys/kernel/btf/vmlinux. Returns NULL if it is missing or invalid. */
struct btf *btf_open(const char *path);
void btf_close(struct btf *btf);

/* Return the offset in bytes of a member of a struct, or -1 if there is none. A path such as "bi_iter.bi_sector" names
 * a member of an embedded struct. Members of unnamed structs and unions belong to the outer struct. */
long btf_offset(struct btf *btf, const char *structure, const char *path);

/* Return whether argument `position` (from 0) of function `name` is a pointer to this struct. */
bool btf_argument_is(const struct btf *btf, const char *name, unsigned position, const char *structure);

/* -- dynprobes.c -------------------------------------------------------------------------------------------------- */

/* Events that iotrace defines in group `androstep`, if the kernel supports kprobes or probes on events:
 *
 *   bio_page      A bio is submitted: dev, opf, sector, size. Of its first page: ino, index, sdev and name, read from
 *                 the page cache, and the offset of the data in that page. It is the only evidence on filesystems
 *                 without extent events. Bios with pages that do not belong to a file are excluded (direct I/O from
 *                 anonymous memory, bounce pages of encryption).
 *   page_mkwrite  A process is about to store to a page of a file on ext4 through a memory map, for the first time
 *                 since its writeback: dev, ino, index, and since Linux 5.17 within, the last 16 bits of the address.
 *                 No other event records this if the page is dirty already.
 *   iomap_dio_rw_begin
 *                 Same as the kernel's event of this name, for kernels before 6.5: a thread begins a direct read or
 *                 write of ext4: dev, ino, pos, count.
 *   direct_begin  A thread begins a direct read or write on a filesystem without such an event: dev, ino, pos, count.
 *                 Its bios have no bio_page, because they carry the thread's memory. Not available before Linux 4.1.
 *   direct_end    It has submitted all bios of that read or write: moved (bytes, or a negative error number).
 *   filemap_read  A read call through the page cache begins: dev, ino, pos, count, and last, the last page of the file.
 *                 Defined on demand together with mm_filemap_fault and mm_filemap_map_pages, which are the same as the
 *                 kernel's events of these names, for kernels before 6.12.
 *   name_found    A file is opened: dev, ino, parent (inode of its directory), and the names of its path in the
 *                 filesystem from the last (d0) up to the root "/", as far as they fit.
 *   name_moved    A file or directory is renamed: the same fields, and the new names (n0 …).
 *
 * The last two need the kernel's BTF. Without it, the paths given by programs are recorded instead:
 *
 *   name_open     A file is opened and may be created (O_CREAT): name, flags.
 *   name_unlink   name
 *   name_rename   name, new_name
 *
 * For the system calls of calls.c, in the calling thread and before the call returns:
 *
 *   call_path     A path argument of the call: path, and its address in the program (user), which identifies the
 *                 argument. Empty, with user 0, if the kernel refused it.
 *   call_fd       A descriptor (fd) is installed for an open file, socket or other object: flags (O_..., without those
 *                 that only apply while opening), mode (type and permissions), size, generation, and dev, ino, parent
 *                 and names as in name_found. Includes descriptors received through a socket, but not those of dup2,
 *                 dup3 and fork. Needs the kernel's BTF.
 *
 * The definitions are global in the kernel and not part of an instance: several iotrace processes share them. */

/* Define the events that the kernel supports and add them to `selection`; add the others to its absent events. */
void dynprobes_define(int tracefs, const struct needs *needs, struct selection *selection);

/* Define and add the events of system calls. Returns whether paths will be recorded. */
bool dynprobes_define_calls(int tracefs, struct selection *selection);

/* Remove the definitions that no other instance uses. */
void dynprobes_remove(int tracefs);

/* -- comms.c ------------------------------------------------------------------------------------------------------ */

/* Names of threads, stored as "comm" in trace.dat. */
struct comms {
    struct comm *list;
    size_t nr;
};

/* Add all threads in /proc. If a thread has several names, the one added last is used. */
void comms_add_running(struct comms *comms);

/* Add the traced threads in saved_cmdlines, which may be a small cache. */
void comms_add_saved(struct comms *comms, int tracefs);

/* Return one "PID COMM" line for each thread (freed by the caller). */
struct contents comms_text(struct comms *comms);

void comms_free(struct comms *comms);

/* -- tracedat.c --------------------------------------------------------------------------------------------------- */

/* trace.dat, version 6: the file format of trace-cmd and KernelShark (trace-cmd.dat.v6(5)).
 *
 * During a recording its parts are files in one directory: `head` (the file up to the comms), `clock`, `uname` and raw
 * pages in cpu0, cpu1, ... They suffice to pack trace.dat, even after the recorder was killed. */

/* Write the file `head` into directory `dir`: page and event headers, the formats of `events` (sorted by system) from
 * `tracefs`, and `cmdlines` ("PID COMM" lines). Returns -1 after printing an error. */
int tracedat_head(int dir, int tracefs, const struct event *events, size_t nr_events, const struct contents *cmdlines);

/* Return the number of files cpuN in `dir`. */
unsigned tracedat_cpus(int dir);

/* Count the events in file cpuN. */
uint64_t tracedat_events(int dir, unsigned cpu);

/* Pack the parts in `dir` to file descriptor `out`. `stats` are the texts of per_cpu/cpuN/stats for each CPU, or NULL
 * if unknown. Returns -1 after printing an error. */
int tracedat_pack(int dir, int out, const struct contents *stats);

/* -- descriptors.c ------------------------------------------------------------------------------------------------ */

/* Open descriptors of processes: the records for descriptors created before the trace began. */
extern const struct record_type descriptor_type;

/* Record every descriptor of every process in /proc except this one, and their working directories as descriptor -100.
 * Returns 0, or -1 if `out` cannot be written; record_close then prints the error. */
int descriptors_record(struct record *out);

/* -- listing.c ---------------------------------------------------------------------------------------------------- */

/* before.rec and after.rec: listings of files with their extents and of all threads, at the start and at the end of a
 * recording. If system calls are recorded, they include open descriptors. */
extern const struct record_probe listing_probe;

/* Mount points to list, and the devices mounted there when they were chosen. */
struct listing {
    const char **paths;
    dev_t *devs;
    size_t nr;
    bool descriptors; /* also list open descriptors of processes */
};

/* Choose the requested mount points ("none": no mount point), or by default those of all traced filesystems. */
void listing_choose(struct listing *listing, const struct opt_list *asked, const struct topology *topology);
void listing_free(struct listing *listing);

/* Sync the filesystems that are still mounted there. */
void listing_sync(const struct listing *listing);

/* Sync the filesystems that are still mounted there and list them into file `name` of directory `dir`. Returns -1 after
 * printing an error. */
int listing_write(const struct listing *listing, int dir, const char *name);

/* List all threads, but no files, into tasks.rec, replacing the file. Returns -1 after printing an error. */
int listing_write_tasks(int dir);

/* -- name_events.c ------------------------------------------------------------------------------------------------ */

/* Parser of fanotify events about directory entries (fanotify(7)). */

/* Missing in headers before Linux 5.17. */
#ifndef FAN_REPORT_TARGET_FID
#define FAN_REPORT_TARGET_FID 0x00001000
#endif
#ifndef FAN_RENAME
#define FAN_RENAME 0x10000000
#endif

/* An inode from its file handle; both are RECORD_NULL_INT64 if the type of the handle is unknown. */
struct inode_id {
    int64_t ino, generation;
};

/* One event; its texts point into the buffer it was read from. Missing fields are null. The kernel may merge events of
 * the same process, inode and name into one, with all their mask bits. */
struct name_event {
    uint64_t mask; /* FAN_... */
    int32_t pid;
    bool is_unknown; /* the type of one of its handles is unknown */
    struct inode_id child, parent, new_parent;
    struct record_text name, new_name;
};

/* The remaining bytes of events. */
struct name_events {
    const char *bytes;
    size_t size;
};

/* Parse the next event. Returns false at the end, or if the remaining bytes are invalid. */
bool name_events_next(struct name_events *events, struct name_event *event);

/* Return the inode of a file handle of this type. */
struct inode_id handle_inode(int type, const void *handle, size_t size);

/* -- names.c ------------------------------------------------------------------------------------------------------ */

/* names.rec: created, removed and renamed directory entries with their inodes, as reported by fanotify for whole
 * filesystems. In a kernel without kprobes it is the only source of names of files that are created and deleted during
 * a recording. */
extern const struct record_probe names_probe;

/* The reader process (0: none); a pipe that ends it when closed, also by the end of iotrace; and a pipe on which it
 * reports that it has started and ended successfully. It is not a child of iotrace, because waiting for all children
 * must not wait for it. */
struct names {
    pid_t reader;
    int end, status;
};

/* Position in the event queue of a filesystem: the next index, and when the queue was last empty. */
struct names_place {
    kernel_dev dev;
    uint64_t order;
    int64_t empty_ns;
};

/* Record events read from a filesystem's queue at a time of CLOCK_RECORD. Returns 0, or -1 if `out` cannot be
 * written. */
int names_take(struct record *out, struct names_place *place, struct name_events events, int64_t read_ns);

/* Start to read the names of all traced filesystems into DIR/names.rec. Returns when no event is missed any more. The
 * reader process closes its copies of the descriptors `unneeded` (-1: none). If the kernel does not report inodes with
 * names, the reason is recorded in the file, and printed unless `are_probed` (kprobes record the names). */
void names_begin(struct names *names, const struct topology *topology, int dir, bool are_probed, const int *unneeded,
                 size_t nr_unneeded);

/* Read the pending events and finish the file. Prints an error if it is incomplete. */
void names_end(struct names *names);

/* -- android.c ---------------------------------------------------------------------------------------------------- */

/* Properties of a device that only Android has. */

/* Write members device, soc, android_release, sdk, build_fingerprint and encryption of a recording's facts, from
 * getprop. Without Android the device is `nodename` and the others are null. */
void android_facts(struct json *json, const char *nodename);

/* -- recording.c -------------------------------------------------------------------------------------------------- */

/* recording.json: metadata and outcome of a recording. */
struct recording {
    const struct topology *topology;
    const struct selection *selection;
    const char *preset, *trace_clock, *instance;
    int64_t buffer_kb;
    char *const *command; /* ends with NULL; empty if there is none */
    const char *const *listed;
    size_t nr_listed;
};

struct cpu_result {
    struct cpu_stats stats;
    bool known;      /* the kernel's counters are known */
    uint64_t events; /* in trace.dat and the earlier segments */
};

/* The part of a recording that was asked for, between the listings, in the clock of the trace. 0: unknown. */
struct window {
    int64_t start_ns, end_ns;
};

/* The outcome of a recording. */
struct outcome {
    const char *stopped_by; /* command, time, size, signal, error or killed */
    const int *command_status;
    pid_t command_pid; /* 0: none */
    const struct cpu_result *cpus;
    unsigned nr_cpus;
};

/* Write the members known at the beginning of a recording: all those before recording_outcome, without the closing
 * brace. */
void recording_begin(FILE *out, const struct recording *recording);

/* Write the other members and the closing brace; `outcome` NULL: unknown so far, or forever. */
void recording_outcome(FILE *out, const struct window *window, const struct outcome *outcome);

/* Return the number of events missing from trace.dat, or -1 if a CPU's counters are unknown. */
int64_t lost_events(const struct cpu_result *cpus, unsigned nr_cpus);

/* -- output.c ----------------------------------------------------------------------------------------------------- */

/* The output directory DIR of a recording, and DIR/unfinished with its parts until they are packed: those of
 * tracedat.h, `recording` (recording.json without the members known only at the end), `instance` (its name), `stats`
 * (the kernel's counters at the last read of the instance), `segmented` (number of events of each CPU in segments) and
 * `window` (its begin and end as text, once they are known). */
struct output {
    const char *path;
    int dir, parts; /* DIR and DIR/unfinished */
};

/* Create and open DIR. Returns -1 after printing an error, like output_begin. */
int output_open(struct output *output, const char *path);

/* Create DIR/unfinished and lock it until output_close. DIR must not contain a recording. */
int output_begin(struct output *output);

/* Open and lock the parts created by output_begin. Returns -1 with errno set; EWOULDBLOCK: another process uses
 * them. */
int output_reopen(struct output *output, const char *path);
void output_close(struct output *output);

/* Return whether the recording is from the instance of this name. */
bool output_is_of(const struct output *output, const char *instance);

/* Write recording.json without its end, and store `begin` for output_pack. */
int output_save_begin(const struct output *output, const struct contents *begin);

/* Store the begin and the end of the window (recording.h), also in recording.json for readers of the running recording.
 * Returns -1 after printing an error. */
int output_save_window(const struct output *output, const struct window *window);

/* Reserve space for the counters, which must be written even if the disk is full, and write them. */
int output_reserve_stats(const struct output *output, unsigned nr_cpus);
int output_save_stats(const struct output *output, const struct instance *instance);

/* Pack the current contents of the parts as segment-TIME.dat, a trace.dat with everything before this time, and keep
 * the parts. Returns -1 after printing an error. */
int output_pack_segment(const struct output *output, int64_t end_ns);

/* Pack the parts into trace.dat and recording.json and remove them. `stopped_by`, `command_status` and `command_pid`
 * are as in struct outcome. Returns -1 after printing an error. */
int output_pack(const struct output *output, const char *stopped_by, const int *command_status, pid_t command_pid);

/* Remove DIR/unfinished with its contents. */
void output_discard(const struct output *output);

/* -- session.c ---------------------------------------------------------------------------------------------------- */

/* A recording from its start to its end. */

/* Requested options; NULL or 0 if not given. */
struct asked {
    const char *output, *clock;
    struct opt_list devices, lists;
    int64_t preset, seconds, megabytes, buffer_kb, segment_seconds;
    bool same_device, readahead;
    char *const *words; /* the command to run; ends with NULL */
};

struct session {
    const struct asked *asked;
    struct topology topology;
    struct selection selection;
    struct listing listing;
    struct output output;
    struct instance instance;
    struct drain drain;
    struct names names;
    struct comms comms;
    char trace_clock[32];
    /* signals that end the recording or report children; signal mask at the start of iotrace */
    sigset_t signals, before;
    pid_t command_pid; /* 0: none was started */
    pid_t child;       /* the command while it runs, else 0 */
    int status;        /* of the command, from waitpid */
    bool ran;
    int64_t began_ns;
    struct window window;
    int64_t segment_ns; /* end of the current segment */
};

/* Reasons for the end of a recording. */
enum end { END_NONE, END_CHILD, END_TIME, END_SIZE, END_SIGNAL, END_ERROR };

/* Record until the end, and pack. Returns -1 after printing an error. */
int session_record(const struct asked *asked);

/* Start and stop recording system calls. They are recorded only between the listings, which make more calls than most
 * programs. Return -1 after printing an error. */
int session_begin_calls(const struct session *session);
int session_end_calls(const struct session *session);

/* Trace, list and run the command until a reason to end occurs; in running.c. */
enum end session_run(struct session *session);

/* Return the time of the trace's clock. */
int64_t session_trace_ns(const struct session *session);

/* End a segment with everything before `end_ns`: the data since the last segment becomes a file. Returns -1 after
 * printing an error. */
int session_end_segment(struct session *session, int64_t end_ns);

/* End the command if it still runs. */
void session_end_command(struct session *session);

/* -- salvage.c ---------------------------------------------------------------------------------------------------- */

/* Remains of killed iotrace processes: instances in tracefs, and DIR/unfinished. */

/* Remove the instances of dead iotrace processes, and the dynamic probes if no live one exists. The contents of an
 * instance are first saved in its output directory for salvage_finish. Each removal is printed. Returns the number of
 * instances that could not be removed. */
int salvage_instances(int tracefs);

/* Pack the interrupted recording in `path` with the rest of its instance. Returns -1 after printing an error. */
int salvage_finish(const char *path);
