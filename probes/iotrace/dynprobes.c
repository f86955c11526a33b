#define _GNU_SOURCE
#include "iotrace/dynprobes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/files.h"
#include "iotrace/btf.h"

#define GROUP      "androstep"
#define KERNEL_BTF "/sys/kernel/btf/vmlinux"
#define DIRECT     "__blockdev_direct_IO" /* direct reads and writes of filesystems that do not use iomap */

static const char *const names[] = {"bio_page",   "page_mkwrite", "iomap_dio_rw_begin", "direct_begin",
                                    "direct_end", "name_open",    "name_unlink",        "name_rename",
                                    "name_found", "name_moved",   "call_path",          "call_fd"};

/* First argument of a function where the kernel does not know $arg1 (before 4.20). */
#if defined(__x86_64__)
static const char *const registers[] = {"%di", "%si", "%dx", "%cx"};
#elif defined(__aarch64__)
static const char *const registers[] = {"%x0", "%x1", "%x2", "%x3"};
#else
static const char *const registers[] = {"%r0", "%r1", "%r2", "%r3"};
#endif

/* dynamic_events (since 5.0) takes all kinds, kprobe_events only kprobes. */
static int command(int tracefs, const char *text)
{
    const char *file = faccessat(tracefs, "dynamic_events", W_OK, 0) == 0 ? "dynamic_events" : "kprobe_events";
    return file_command(tracefs, file, text, O_APPEND);
}

/* `arguments` with "$argN" replaced by the register that holds it at the function's entry. */
static char *with_registers(const char *arguments)
{
    char *text = format("%s", "");
    while (*arguments) {
        char *longer;
        if (strncmp(arguments, "$arg", 4) == 0 && arguments[4] >= '1' && arguments[4] <= '4') {
            longer = format("%s%s", text, registers[arguments[4] - '1']);
            arguments += 5;
        } else {
            longer = format("%s%c", text, *arguments++);
        }
        free(text);
        text = longer;
    }
    return text;
}

static bool define(int tracefs, const char *kind, const char *name, const char *place, const char *arguments)
{
    char *text = format("%s:" GROUP "/%s %s %s", kind, name, place, arguments);
    bool defined = command(tracefs, text) == 0 || errno == EEXIST;
    free(text);
    return defined;
}

static bool define_kprobe(int tracefs, const char *name, const char *function, const char *arguments)
{
    if (define(tracefs, "p", name, function, arguments))
        return true;
    char *older = with_registers(arguments);
    bool defined = define(tracefs, "p", name, function, older);
    free(older);
    return defined;
}

/* Offset of the first of these members that the kernel has; a member that was renamed has several names. */
static long offset_of(const struct btf *btf, const char *structure, const char *path, const char *renamed)
{
    long offset = btf_offset(btf, structure, path);
    return offset < 0 && renamed ? btf_offset(btf, structure, renamed) : offset;
}

/* Where the device of a bio is: in its block_device, or (4.14 to 5.11) in the first partition of its disk. */
static char *bio_device(const struct btf *btf)
{
    long bdev = btf_offset(btf, "bio", "bi_bdev"), dev = btf_offset(btf, "block_device", "bd_dev");
    if (bdev < 0 || dev < 0) {
        bdev = btf_offset(btf, "bio", "bi_disk");
        dev = btf_offset(btf, "gendisk", "part0.__dev.devt");
    }
    return bdev < 0 || dev < 0 ? NULL : format("+%ld(+%ld($arg1))", dev, bdev);
}

/* Fetch arguments of bio_page; NULL where a struct is not as it was in the kernels known. */
static char *bio_page_arguments(const struct btf *btf)
{
    long opf = btf_offset(btf, "bio", "bi_opf"), sector = btf_offset(btf, "bio", "bi_iter.bi_sector");
    long size = btf_offset(btf, "bio", "bi_iter.bi_size"), vec = btf_offset(btf, "bio", "bi_io_vec");
    long vcnt = btf_offset(btf, "bio", "bi_vcnt"), offset = btf_offset(btf, "bio_vec", "bv_offset");
    long idx = btf_offset(btf, "bio", "bi_iter.bi_idx"), done = btf_offset(btf, "bio", "bi_iter.bi_bvec_done");
    long page = btf_offset(btf, "bio_vec", "bv_page"), mapping = btf_offset(btf, "page", "mapping");
    long index = offset_of(btf, "page", "index", "__folio_index"), host = btf_offset(btf, "address_space", "host");
    long ino = btf_offset(btf, "inode", "i_ino"), sb = btf_offset(btf, "inode", "i_sb");
    long dentry = btf_offset(btf, "inode", "i_dentry.first"), sdev = btf_offset(btf, "super_block", "s_dev");
    long alias = offset_of(btf, "dentry", "d_u.d_alias", "d_alias"), name = btf_offset(btf, "dentry", "d_name.name");
    const long needed[] = {vcnt,    opf,   sector, size, vec, page,   offset, idx,   done,
                           mapping, index, host,   ino,  sb,  dentry, sdev,   alias, name};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i] < 0)
            return NULL;
    char *device = bio_device(btf);
    if (!device)
        return NULL;
    char *at_page = format("+%ld(+%ld($arg1))", page, vec);
    char *at_mapping = format("+%ld(%s)", mapping, at_page);
    char *at_host = format("+%ld(%s)", host, at_mapping);
    char *arguments =
        format("dev=%s:u32 opf=+%ld($arg1):u32 sector=+%ld($arg1):u64 size=+%ld($arg1):u32 vcnt=+%ld($arg1):u16 "
               "idx=+%ld($arg1):u32 done=+%ld($arg1):u32 offset=+%ld(+%ld($arg1)):u32 "
               "mapping=%s:x64 host=%s:x64 ino=+%ld(%s):u64 index=+%ld(%s):u64 sdev=+%ld(+%ld(%s)):u32 "
               "name=+0(%+ld(+%ld(%s))):string",
               device, opf, sector, size, vcnt, idx, done, offset, vec, at_mapping, at_host, ino, at_host, index,
               at_page, sdev, sb, at_host, name - alias, dentry, at_host);
    free(device);
    free(at_page);
    free(at_mapping);
    free(at_host);
    return arguments;
}

/* What the kernel cannot fetch it leaves as it was in the buffer, from some other record, and a bio without pages
 * (flush, discard) may still point to those of another: neither must come through. Nor a bio of which a part was done
 * before (idx, done): it does not begin with its first page. */
static char *bio_page_filter(const struct topology *topology)
{
    char *devices = filter_devices(topology, "dev");
    char *filter =
        format("(%s) && vcnt != 0 && idx == 0 && done == 0 && mapping != 0 && !(mapping & 3) && host != 0", devices);
    free(devices);
    return filter;
}

static bool define_bio_page(int tracefs, const struct btf *btf)
{
    char *arguments = btf ? bio_page_arguments(btf) : NULL;
    bool defined = arguments && define_kprobe(tracefs, "bio_page", "submit_bio", arguments);
    free(arguments);
    return defined;
}

/* Fetch arguments of direct_begin; NULL where the function (before Linux 4.1) or a struct is not as it was known. */
static char *direct_arguments(const struct btf *btf)
{
    if (!btf_argument_is(btf, DIRECT, 0, "kiocb") || !btf_argument_is(btf, DIRECT, 1, "inode") ||
        !btf_argument_is(btf, DIRECT, 3, "iov_iter"))
        return NULL;
    long ino = btf_offset(btf, "inode", "i_ino"), sb = btf_offset(btf, "inode", "i_sb");
    long sdev = btf_offset(btf, "super_block", "s_dev"), pos = btf_offset(btf, "kiocb", "ki_pos");
    long count = btf_offset(btf, "iov_iter", "count");
    if (ino < 0 || sb < 0 || sdev < 0 || pos < 0 || count < 0)
        return NULL;
    return format("dev=+%ld(+%ld($arg2)):u32 ino=+%ld($arg2):u64 pos=+%ld($arg1):s64 count=+%ld($arg4):u64", sdev, sb,
                  ino, pos, count);
}

static bool define_direct_begin(int tracefs, const struct btf *btf)
{
    char *arguments = btf ? direct_arguments(btf) : NULL;
    bool defined = arguments && define_kprobe(tracefs, "direct_begin", DIRECT, arguments);
    free(arguments);
    return defined;
}

/* Fetch arguments that tell the inode of an open file and where it is used; NULL where a struct is not as known. */
static char *file_arguments(const struct btf *btf, const char *file, const char *place)
{
    long inode = btf_offset(btf, "file", "f_inode"), ino = btf_offset(btf, "inode", "i_ino");
    long sb = btf_offset(btf, "inode", "i_sb"), sdev = btf_offset(btf, "super_block", "s_dev");
    if (inode < 0 || ino < 0 || sb < 0 || sdev < 0)
        return NULL;
    return format("dev=+%ld(+%ld(+%ld(%s))):u32 ino=+%ld(+%ld(%s)):u64 %s", sdev, sb, inode, file, ino, inode, file,
                  place);
}

/* All of ext4's stores through a map pass here, since Linux 4.11 with this argument. */
static bool define_page_mkwrite(int tracefs, const struct btf *btf)
{
    long vma = btf ? btf_offset(btf, "vm_fault", "vma") : -1, index = btf ? btf_offset(btf, "vm_fault", "pgoff") : -1;
    long file = btf ? btf_offset(btf, "vm_area_struct", "vm_file") : -1;
    if (vma < 0 || index < 0 || file < 0)
        return false;
    long address = btf_offset(btf, "vm_fault", "real_address"); /* since Linux 5.17 */
    char *mapped = format("+%ld(+%ld($arg1))", file, vma), *page = format("index=+%ld($arg1):u64", index);
    /* No more of the address than its place in the largest page: the rest is a secret of the process. */
    char *place = address < 0 ? format("%s", page) : format("%s within=+%ld($arg1):b16@0/64", page, address);
    char *arguments = file_arguments(btf, mapped, place);
    bool defined = arguments && define_kprobe(tracefs, "page_mkwrite", "ext4_page_mkwrite", arguments);
    free(mapped);
    free(page);
    free(place);
    free(arguments);
    return defined;
}

/* In kernels without the tracepoint; the function was split in two in Linux 5.11. */
static bool define_iomap_begin(int tracefs, const struct btf *btf)
{
    static const char *const functions[] = {"__iomap_dio_rw", "iomap_dio_rw"};
    long file = btf ? btf_offset(btf, "kiocb", "ki_filp") : -1, pos = btf ? btf_offset(btf, "kiocb", "ki_pos") : -1;
    long count = btf ? btf_offset(btf, "iov_iter", "count") : -1;
    if (file < 0 || pos < 0 || count < 0)
        return false;
    char *opened = format("+%ld($arg1)", file),
         *place = format("pos=+%ld($arg1):s64 count=+%ld($arg2):u64", pos, count);
    char *arguments = file_arguments(btf, opened, place);
    bool defined = false;
    for (size_t i = 0; arguments && !defined && i < sizeof functions / sizeof *functions; i++)
        defined = btf_argument_is(btf, functions[i], 0, "kiocb") && btf_argument_is(btf, functions[i], 1, "iov_iter") &&
                  define_kprobe(tracefs, "iomap_dio_rw_begin", functions[i], arguments);
    free(opened);
    free(place);
    free(arguments);
    return defined;
}

/* struct filename begins with the name and struct open_flags with the flags, since Linux 3.7. */
static bool define_open(int tracefs)
{
    return define_kprobe(tracefs, "name_open", "do_filp_open", "name=+0(+0($arg2)):string flags=+0($arg3):u32") ||
           define(tracefs, "e", "name_open", "syscalls/sys_enter_openat",
                  "name=+0($filename):ustring flags=$flags:u32");
}

static bool define_unlink(int tracefs, const struct btf *btf)
{
    if (btf && btf_argument_is(btf, "do_unlinkat", 1, "filename") &&
        define_kprobe(tracefs, "name_unlink", "do_unlinkat", "name=+0(+0($arg2)):string"))
        return true;
    return define(tracefs, "e", "name_unlink", "syscalls/sys_enter_unlinkat", "name=+0($pathname):ustring");
}

static bool define_rename(int tracefs, const struct btf *btf)
{
    if (btf && btf_argument_is(btf, "do_renameat2", 1, "filename") &&
        btf_argument_is(btf, "do_renameat2", 3, "filename") &&
        define_kprobe(tracefs, "name_rename", "do_renameat2",
                      "name=+0(+0($arg2)):string new_name=+0(+0($arg4)):string"))
        return true;
    return define(tracefs, "e", "name_rename", "syscalls/sys_enter_renameat2",
                  "name=+0($oldname):ustring new_name=+0($newname):ustring");
}

/* As many as fit in what the kernel takes for one argument (63 characters). */
#define LEVELS 8

/* The names of a dentry and those above it as strings prefix0, prefix1, …; "/" is the filesystem's root. Takes
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

/* What is told of a dentry: the device, its inode, that of the directory above it, and its path; NULL where a struct
 * is not as it was in the kernels known. */
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
    bool defined = arguments && define_kprobe(tracefs, "name_found", "vfs_open", arguments);
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
    bool defined = define_kprobe(tracefs, "name_moved", "d_move", arguments);
    free(from);
    free(to);
    free(arguments);
    return defined;
}

static void select_if(bool defined, struct selection *selection, const char *name, char *filter)
{
    if (defined) {
        selection_add(selection, GROUP, name, filter);
        return;
    }
    free(filter);
    selection_miss(selection, GROUP, name);
}

/* The paths that programs give tell of no inode: they are the second best. */
static void select_names(int tracefs, const struct topology *topology, const struct btf *btf,
                         struct selection *selection)
{
    if (define_found(tracefs, btf)) {
        selection_add(selection, GROUP, "name_found", filter_devices(topology, "dev"));
    } else {
        select_if(define_open(tracefs), selection, "name_open", format("flags & %d", O_CREAT));
        select_if(define_unlink(tracefs, btf), selection, "name_unlink", NULL);
    }
    if (define_moved(tracefs, btf))
        selection_add(selection, GROUP, "name_moved", filter_devices(topology, "dev"));
    else
        select_if(define_rename(tracefs, btf), selection, "name_rename", NULL);
}

void dynprobes_define(int tracefs, const struct topology *topology, struct selection *selection)
{
    struct btf *btf = btf_open(KERNEL_BTF);
    if (traces_filesystem(topology, is_without_extent_events)) {
        select_if(define_bio_page(tracefs, btf), selection, "bio_page", bio_page_filter(topology));
        bool begins = define_direct_begin(tracefs, btf);
        select_if(begins, selection, "direct_begin", filter_devices(topology, "dev"));
        select_if(begins && define(tracefs, "r", "direct_end", DIRECT, "moved=$retval:s64"), selection, "direct_end",
                  NULL);
    }
    if (traces_filesystem(topology, is_ext)) {
        select_if(define_page_mkwrite(tracefs, btf), selection, "page_mkwrite", filter_devices(topology, "dev"));
        if (!tracefs_has_event(tracefs, "iomap", "iomap_dio_rw_begin"))
            select_if(define_iomap_begin(tracefs, btf), selection, "iomap_dio_rw_begin",
                      filter_devices(topology, "dev"));
    }
    select_names(tracefs, topology, btf, selection);
    btf_close(btf);
}

/* struct filename begins with the name and the pointer that the program gave, since Linux 3.7. Compilers split the
 * function, and then most of its callers call the second part. Many threads may be in it at once, waiting for memory.
 */
static bool define_path(int tracefs)
{
    static const char *const functions[] = {"getname_flags.part.0", "getname_flags"};
    static const char *const kinds[] = {"r512", "r"}; /* the number is known since Linux 4.12 */
    struct utsname name;
    uname(&name);
    bool wide = strstr(name.machine, "64") != NULL;
    const char *arguments =
        wide ? "user=+8($retval):x64 path=+0(+0($retval)):string" : "user=+4($retval):x32 path=+0(+0($retval)):string";
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            if (define(tracefs, kinds[kind], "call_path", functions[i], arguments))
                return true;
    return false;
}

/* Fetch arguments of call_fd; NULL where a struct is not as it was in the kernels known. */
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
    bool defined = arguments && define_kprobe(tracefs, "call_fd", "fd_install", arguments);
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
        char *path = format("events/" GROUP "/%s/format", names[i]), *text = format("-:" GROUP "/%s", names[i]);
        if (faccessat(tracefs, path, F_OK, 0) == 0)
            command(tracefs, text);
        free(path);
        free(text);
    }
}
