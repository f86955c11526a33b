#define _GNU_SOURCE
#include "iotrace/dynprobes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/files.h"
#include "iotrace/btf.h"
#include "iotrace/kprobes.h"
#include "iotrace/page_probes.h"

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"

static const char *const names[] = {"bio_page",     "page_mkwrite",     "iomap_dio_rw_begin",  "direct_begin",
                                    "direct_end",   "name_open",        "name_unlink",         "name_rename",
                                    "name_found",   "name_moved",       "call_path",           "call_fd",
                                    "filemap_read", "mm_filemap_fault", "mm_filemap_map_pages"};

/* Since Linux 3.7 struct filename begins with the name and struct open_flags with the flags. */
static bool define_open(int tracefs)
{
    return kprobe_define_entry(tracefs, "name_open", "do_filp_open", "name=+0(+0($arg2)):string flags=+0($arg3):u32") ||
           kprobe_define(tracefs, "e", "name_open", "syscalls/sys_enter_openat",
                         "name=+0($filename):ustring flags=$flags:u32");
}

static bool define_unlink(int tracefs, const struct btf *btf)
{
    if (btf && btf_argument_is(btf, "do_unlinkat", 1, "filename") &&
        kprobe_define_entry(tracefs, "name_unlink", "do_unlinkat", "name=+0(+0($arg2)):string"))
        return true;
    return kprobe_define(tracefs, "e", "name_unlink", "syscalls/sys_enter_unlinkat", "name=+0($pathname):ustring");
}

static bool define_rename(int tracefs, const struct btf *btf)
{
    if (btf && btf_argument_is(btf, "do_renameat2", 1, "filename") &&
        btf_argument_is(btf, "do_renameat2", 3, "filename") &&
        kprobe_define_entry(tracefs, "name_rename", "do_renameat2",
                            "name=+0(+0($arg2)):string new_name=+0(+0($arg4)):string"))
        return true;
    return kprobe_define(tracefs, "e", "name_rename", "syscalls/sys_enter_renameat2",
                         "name=+0($oldname):ustring new_name=+0($newname):ustring");
}

/* Levels that fit in the 63 characters that the kernel accepts for one argument. */
#define LEVELS 8

/* Return the names of a dentry and its parents as strings prefix0, prefix1, …; "/" is the root of the filesystem. Frees
 * `dentry`. */
static char *path_arguments(const struct btf *btf, char prefix, char *dentry)
{
    long name = btf_offset(btf, "dentry", "d_name.name"), parent = btf_offset(btf, "dentry", "d_parent");
    char *arguments = format("%s", "");
    for (int level = 0; level < LEVELS; level++) {
        char *longer = format("%s %c%d=+0(+%ld(%s)):string", arguments, prefix, level, name, dentry);
        char *above = format("+%ld(%s)", parent, dentry);
        free(arguments);
        free(dentry);
        arguments = longer;
        dentry = above;
    }
    free(dentry);
    return arguments;
}

/* Return fetch arguments for a dentry: device, inode, inode of its directory, and path. Returns NULL if a struct has an
 * unknown layout. */
static char *dentry_arguments(const struct btf *btf, const char *dentry)
{
    long sb = btf_offset(btf, "dentry", "d_sb"), sdev = btf_offset(btf, "super_block", "s_dev");
    long inode = btf_offset(btf, "dentry", "d_inode"), ino = btf_offset(btf, "inode", "i_ino");
    long name = btf_offset(btf, "dentry", "d_name.name"), parent = btf_offset(btf, "dentry", "d_parent");
    if (sb < 0 || sdev < 0 || inode < 0 || ino < 0 || name < 0 || parent < 0)
        return NULL;
    char *path = path_arguments(btf, 'd', format("%s", dentry));
    char *arguments = format("dev=+%ld(+%ld(%s)):u32 ino=+%ld(+%ld(%s)):u64 parent=+%ld(+%ld(+%ld(%s))):u64%s", sdev,
                             sb, dentry, ino, inode, dentry, ino, inode, parent, dentry, path);
    free(path);
    return arguments;
}

static bool define_found(int tracefs, const struct btf *btf)
{
    long place = btf ? btf_offset(btf, "path", "dentry") : -1;
    if (place < 0 || !btf_argument_is(btf, "vfs_open", 0, "path"))
        return false;
    char *dentry = format("+%ld($arg1)", place), *arguments = dentry_arguments(btf, dentry);
    bool defined = arguments && kprobe_define_entry(tracefs, "name_found", "vfs_open", arguments);
    free(dentry);
    free(arguments);
    return defined;
}

static bool define_moved(int tracefs, const struct btf *btf)
{
    if (!btf || !btf_argument_is(btf, "d_move", 0, "dentry") || !btf_argument_is(btf, "d_move", 1, "dentry"))
        return false;
    char *from = dentry_arguments(btf, "$arg1");
    if (!from)
        return false;
    char *to = path_arguments(btf, 'n', format("%s", "$arg2")), *arguments = format("%s%s", from, to);
    bool defined = kprobe_define_entry(tracefs, "name_moved", "d_move", arguments);
    free(from);
    free(to);
    free(arguments);
    return defined;
}

static void select_if(bool defined, struct selection *selection, const char *name, char *filter)
{
    if (defined) {
        selection_add(selection, PROBE_GROUP, name, filter);
        return;
    }
    free(filter);
    selection_miss(selection, PROBE_GROUP, name);
}

/* Select name events. Paths from system calls are the second choice, because they do not identify an inode. */
static void select_names(int tracefs, const struct topology *topology, const struct btf *btf,
                         struct selection *selection)
{
    if (define_found(tracefs, btf)) {
        selection_add(selection, PROBE_GROUP, "name_found", filter_devices(topology, "dev"));
    } else {
        select_if(define_open(tracefs), selection, "name_open", format("flags & %d", O_CREAT));
        select_if(define_unlink(tracefs, btf), selection, "name_unlink", NULL);
    }
    if (define_moved(tracefs, btf))
        selection_add(selection, PROBE_GROUP, "name_moved", filter_devices(topology, "dev"));
    else
        select_if(define_rename(tracefs, btf), selection, "name_rename", NULL);
}

/* Select events of requested pages for kernels without these tracepoints. */
static void select_asked(int tracefs, const struct topology *topology, const struct btf *btf,
                         struct selection *selection)
{
    if (tracefs_has_event(tracefs, "filemap", "mm_filemap_get_pages"))
        return;
    select_if(page_probes_define_reads(tracefs, btf), selection, "filemap_read", filter_devices(topology, "dev"));
    select_if(page_probes_define_faults(tracefs, btf), selection, "mm_filemap_fault",
              filter_devices(topology, "s_dev"));
    select_if(page_probes_define_maps(tracefs, btf), selection, "mm_filemap_map_pages",
              filter_devices(topology, "s_dev"));
}

void dynprobes_define(int tracefs, const struct needs *needs, struct selection *selection)
{
    const struct topology *topology = needs->topology;
    struct btf *btf = btf_open(KERNEL_BTF);
    if (traces_filesystem(topology, is_without_extent_events)) {
        select_if(page_probes_define_bio_page(tracefs, btf), selection, "bio_page", page_probes_bio_filter(topology));
        bool begins = page_probes_define_direct_begin(tracefs, btf);
        select_if(begins, selection, "direct_begin", filter_devices(topology, "dev"));
        select_if(begins && page_probes_define_direct_end(tracefs), selection, "direct_end", NULL);
    }
    if (traces_filesystem(topology, is_ext)) {
        select_if(page_probes_define_page_mkwrite(tracefs, btf), selection, "page_mkwrite",
                  filter_devices(topology, "dev"));
        if (!tracefs_has_event(tracefs, "iomap", "iomap_dio_rw_begin"))
            select_if(page_probes_define_iomap_begin(tracefs, btf), selection, "iomap_dio_rw_begin",
                      filter_devices(topology, "dev"));
    }
    if (needs->readahead)
        select_asked(tracefs, topology, btf, selection);
    select_names(tracefs, topology, btf, selection);
    btf_close(btf);
}

/* Since Linux 3.7 struct filename begins with the name and the pointer from the program. Compilers split getname_flags,
 * and most callers then call the second part. Many threads may be in it at once, waiting for memory, so the probe
 * allows 512 instances. */
static bool define_path(int tracefs)
{
    static const char *const functions[] = {"getname_flags.part.0", "getname_flags"};
    static const char *const kinds[] = {"r512", "r"}; /* a number is accepted since Linux 4.12 */
    struct utsname name;
    uname(&name);
    bool wide = strstr(name.machine, "64") != NULL;
    const char *arguments =
        wide ? "user=+8($retval):x64 path=+0(+0($retval)):string" : "user=+4($retval):x32 path=+0(+0($retval)):string";
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            if (kprobe_define(tracefs, kinds[kind], "call_path", functions[i], arguments))
                return true;
    return false;
}

/* Return fetch arguments of call_fd, or NULL if a struct has an unknown layout. */
static char *fd_arguments(const struct btf *btf)
{
    if (!btf_argument_is(btf, "fd_install", 1, "file"))
        return NULL;
    long flags = btf_offset(btf, "file", "f_flags"), inode = btf_offset(btf, "file", "f_inode");
    long mode = btf_offset(btf, "inode", "i_mode"), size = btf_offset(btf, "inode", "i_size");
    long generation = btf_offset(btf, "inode", "i_generation"), place = btf_offset(btf, "file", "f_path.dentry");
    if (flags < 0 || inode < 0 || mode < 0 || size < 0 || generation < 0 || place < 0)
        return NULL;
    char *dentry = format("+%ld($arg2)", place), *file = dentry_arguments(btf, dentry);
    char *arguments = file ? format("fd=$arg1:s32 flags=+%ld($arg2):x32 mode=+%ld(+%ld($arg2)):x16 "
                                    "size=+%ld(+%ld($arg2)):s64 generation=+%ld(+%ld($arg2)):u32 %s",
                                    flags, mode, inode, size, inode, generation, inode, file)
                           : NULL;
    free(dentry);
    free(file);
    return arguments;
}

static bool define_fd(int tracefs)
{
    struct btf *btf = btf_open(KERNEL_BTF);
    char *arguments = btf ? fd_arguments(btf) : NULL;
    bool defined = arguments && kprobe_define_entry(tracefs, "call_fd", "fd_install", arguments);
    free(arguments);
    btf_close(btf);
    return defined;
}

bool dynprobes_define_calls(int tracefs, struct selection *selection)
{
    bool paths = define_path(tracefs);
    select_if(paths, selection, "call_path", filter_others());
    select_if(define_fd(tracefs), selection, "call_fd", filter_others());
    return paths;
}

void dynprobes_remove(int tracefs)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = format("events/" PROBE_GROUP "/%s/format", names[i]),
             *text = format("-:" PROBE_GROUP "/%s", names[i]);
        if (faccessat(tracefs, path, F_OK, 0) == 0)
            kprobe_command(tracefs, text);
        free(path);
        free(text);
    }
}
