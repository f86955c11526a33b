#include "iotrace/iotrace.h"

#include <sys/utsname.h>

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"
#define GROUP      "androstep"
#define DIRECT     "__blockdev_direct_IO" /* direct I/O of filesystems that do not use iomap */

/* A definition of a dynamic event. In `fetch`, {struct.member} stands for +OFFSET, the offset of the member in this
 * kernel. {struct.member|renamed} also accepts a later name of it, and {struct.member-other} is a difference. {shift}
 * and {index_bits} are the bits of a 64-bit offset in a file that are within a page, and that are its index. */
struct definition {
    const char *name;
    const char *kind;       /* "p", "r", "e", …: Documentation/trace/kprobetrace.rst */
    const char *place;      /* a function or an event */
    const char *structs[4]; /* structs to which the arguments must point, by the kernel's BTF; NULL: not checked */
    const char *fetch;      /* arguments are $arg1 to $arg4 */
};

/* The parts of a definition are easier to read as they stand here. */
/* clang-format off */

/* A file: its device and inode, the argument that leads to it, and the range of a call. */
#define DEV_OF(inode)   "{super_block.s_dev}({inode.i_sb}(" inode "))"
#define INO_OF(inode)   "{inode.i_ino}(" inode ")"
#define INODE_OF(file)  "{file.f_inode}(" file ")"
#define FILE_ID(file)   "dev=" DEV_OF(INODE_OF(file)) ":u32 ino=" INO_OF(INODE_OF(file)) ":u64"
#define MAPPED_ID(file) "s_dev=" DEV_OF(INODE_OF(file)) ":u32 i_ino=" INO_OF(INODE_OF(file)) ":u64"
#define MAPPED          "{vm_area_struct.vm_file}({vm_fault.vma}($arg1))"
#define MAPPED_PAGE     " index={vm_fault.pgoff}($arg1):u64"
#define OPENED          "{kiocb.ki_filp}($arg1)"
#define RANGE           " pos={kiocb.ki_pos}($arg1):s64 count={iov_iter.count}($arg2):u64"
#define LAST_PAGE(file) " last={inode.i_size}(" INODE_OF(file) "):b{index_bits}@{shift}/64"

/* A dentry: device, inode, inode of its directory, and the names of its path. "/" is the root of the filesystem. Eight
 * levels fit in the 63 characters that the kernel accepts for one argument. */
#define UP(dentry)          "{dentry.d_parent}(" dentry ")"
#define UP2(dentry)         UP(UP(dentry))
#define UP4(dentry)         UP2(UP2(dentry))
#define NAME(label, dentry) " " label "=+0({dentry.d_name.name}(" dentry ")):string"
#define PATH(label, dentry)                                                                                            \
    NAME(label "0", dentry)           NAME(label "1", UP(dentry))                                                      \
    NAME(label "2", UP2(dentry))      NAME(label "3", UP(UP2(dentry)))                                                 \
    NAME(label "4", UP4(dentry))      NAME(label "5", UP(UP4(dentry)))                                                 \
    NAME(label "6", UP2(UP4(dentry))) NAME(label "7", UP(UP2(UP4(dentry))))
#define DENTRY_INO(dentry) INO_OF("{dentry.d_inode}(" dentry ")")
#define DENTRY(dentry)                                                                                                 \
    "dev={super_block.s_dev}({dentry.d_sb}(" dentry ")):u32 "                                                          \
    "ino=" DENTRY_INO(dentry) ":u64 parent=" DENTRY_INO(UP(dentry)) ":u64" PATH("d", dentry)

/* A bio and its first page, in the page cache. */
#define BIO_PAGE    "{bio_vec.bv_page}({bio.bi_io_vec}($arg1))"
#define BIO_MAPPING "{page.mapping}(" BIO_PAGE ")"
#define BIO_HOST    "{address_space.host}(" BIO_MAPPING ")"
#define BIO(device)                                                                                                    \
    "dev=" device ":u32 opf={bio.bi_opf}($arg1):u32 sector={bio.bi_iter.bi_sector}($arg1):u64 "                        \
    "size={bio.bi_iter.bi_size}($arg1):u32 vcnt={bio.bi_vcnt}($arg1):u16 idx={bio.bi_iter.bi_idx}($arg1):u32 "         \
    "done={bio.bi_iter.bi_bvec_done}($arg1):u32 offset={bio_vec.bv_offset}({bio.bi_io_vec}($arg1)):u32 "               \
    "mapping=" BIO_MAPPING ":x64 host=" BIO_HOST ":x64 ino=" INO_OF(BIO_HOST) ":u64 "                                  \
    "index={page.index|__folio_index}(" BIO_PAGE "):u64 sdev=" DEV_OF(BIO_HOST) ":u32 "                                \
    "name=+0({dentry.d_name.name-d_u.d_alias|d_alias}({inode.i_dentry.first}(" BIO_HOST "))):string"

/* All definitions. Those of one event are tried in this order; the first that the kernel accepts is used.
 * - bio_page: from Linux 4.14 to 5.11 a bio has the disk and not the block device.
 * - page_mkwrite: ext4_page_mkwrite handles all stores of ext4 through a map; it has this argument since Linux 4.11.
 *   Only the offset in the largest page is recorded (Linux 5.17): the rest of the address is a secret of the process.
 * - iomap_dio_rw_begin: Linux 5.11 split the function in two.
 * - filemap_read: until Linux 5.11 the function was generic_file_buffered_read.
 * - name_open: since Linux 3.7 struct filename begins with the name, and struct open_flags with the flags. */
static const struct definition definitions[] = {
    {"bio_page", "p", "submit_bio", {NULL}, BIO("{block_device.bd_dev}({bio.bi_bdev}($arg1))")},
    {"bio_page", "p", "submit_bio", {NULL}, BIO("{gendisk.part0.__dev.devt}({bio.bi_disk}($arg1))")},
    {"direct_begin", "p", DIRECT, {"kiocb", "inode", NULL, "iov_iter"},
     "dev=" DEV_OF("$arg2") ":u32 ino=" INO_OF("$arg2") ":u64 pos={kiocb.ki_pos}($arg1):s64 "
     "count={iov_iter.count}($arg4):u64"},
    {"direct_end", "r", DIRECT, {NULL}, "moved=$retval:s64"},
    {"page_mkwrite", "p", "ext4_page_mkwrite", {NULL},
     FILE_ID(MAPPED) MAPPED_PAGE " within={vm_fault.real_address}($arg1):b16@0/64"},
    {"page_mkwrite", "p", "ext4_page_mkwrite", {NULL}, FILE_ID(MAPPED) MAPPED_PAGE},
    {"iomap_dio_rw_begin", "p", "__iomap_dio_rw", {"kiocb", "iov_iter"}, FILE_ID(OPENED) RANGE},
    {"iomap_dio_rw_begin", "p", "iomap_dio_rw", {"kiocb", "iov_iter"}, FILE_ID(OPENED) RANGE},
    {"filemap_read", "p", "filemap_read", {"kiocb", "iov_iter"}, FILE_ID(OPENED) RANGE LAST_PAGE(OPENED)},
    {"filemap_read", "p", "generic_file_buffered_read", {"kiocb", "iov_iter"}, FILE_ID(OPENED) RANGE LAST_PAGE(OPENED)},
    {"mm_filemap_fault", "p", "filemap_fault", {"vm_fault"}, MAPPED_ID(MAPPED) MAPPED_PAGE},
    {"mm_filemap_map_pages", "p", "filemap_map_pages", {"vm_fault"},
     MAPPED_ID(MAPPED) " index=$arg2:u64 last_index=$arg3:u64"},
    {"name_found", "p", "vfs_open", {"path"}, DENTRY("{path.dentry}($arg1)")},
    {"name_moved", "p", "d_move", {"dentry", "dentry"}, DENTRY("$arg1") PATH("n", "$arg2")},
    {"name_open", "p", "do_filp_open", {NULL}, "name=+0(+0($arg2)):string flags=+0($arg3):u32"},
    {"name_open", "e", "syscalls/sys_enter_openat", {NULL}, "name=+0($filename):ustring flags=$flags:u32"},
    {"name_unlink", "p", "do_unlinkat", {NULL, "filename"}, "name=+0(+0($arg2)):string"},
    {"name_unlink", "e", "syscalls/sys_enter_unlinkat", {NULL}, "name=+0($pathname):ustring"},
    {"name_rename", "p", "do_renameat2", {NULL, "filename", NULL, "filename"},
     "name=+0(+0($arg2)):string new_name=+0(+0($arg4)):string"},
    {"name_rename", "e", "syscalls/sys_enter_renameat2", {NULL},
     "name=+0($oldname):ustring new_name=+0($newname):ustring"},
    {"call_fd", "p", "fd_install", {NULL, "file"},
     "fd=$arg1:s32 flags={file.f_flags}($arg2):x32 mode={inode.i_mode}(" INODE_OF("$arg2") "):x16 "
     "size={inode.i_size}(" INODE_OF("$arg2") "):s64 generation={inode.i_generation}(" INODE_OF("$arg2") "):u32 "
     DENTRY("{file.f_path.dentry}($arg2)")},
};

/* Since Linux 6.5 splice has its own function for reads: a second place of the event. */
static const struct definition splice_read = {
    "filemap_read", "p", "filemap_splice_read", {"file"},
    FILE_ID("$arg1") " pos=+0($arg2):s64 count=$arg4:u64" LAST_PAGE("$arg1")};

/* clang-format on */

#define NR_DEFINITIONS (sizeof definitions / sizeof *definitions)

/* -- fetch arguments ---------------------------------------------------------------------------------------------- */

/* Registers of the arguments, for kernels without $arg1 (before 4.20). */
#if defined(__x86_64__)
static const char *const registers[] = {"%di", "%si", "%dx", "%cx"};
#elif defined(__aarch64__)
static const char *const registers[] = {"%x0", "%x1", "%x2", "%x3"};
#else
static const char *const registers[] = {"%r0", "%r1", "%r2", "%r3"};
#endif

/* Return the offset of the first of `members`, separated by |, that the struct has; -1: none. */
static long offset_of(struct btf *btf, const char *structure, char *members)
{
    long offset = -1;
    for (char *rest, *member = strtok_r(members, "|", &rest); member && offset < 0; member = strtok_r(NULL, "|", &rest))
        offset = btf_offset(btf, structure, member);
    return offset;
}

/* Return the text of a placeholder (freed by the caller), or NULL if a struct has an unknown layout. */
static char *placeholder(struct btf *btf, const char *begin, size_t length)
{
    int shift = __builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
    char *structure = format("%.*s", (int)length, begin), *member = strchr(structure, '.'), *text = NULL;
    if (!member) {
        text = format("%d", strcmp(structure, "shift") == 0 ? shift : 64 - shift);
    } else if (btf) {
        *member++ = '\0';
        char *minus = strchr(member, '-');
        if (minus)
            *minus++ = '\0';
        long offset = offset_of(btf, structure, member), other = minus ? offset_of(btf, structure, minus) : 0;
        text = offset < 0 || other < 0 ? NULL : format("%+ld", offset - other);
    }
    free(structure);
    return text;
}

/* Return `fetch` with its placeholders replaced, and with `registers` for $argN if `older`; NULL if a struct has an
 * unknown layout. */
static char *expanded(struct btf *btf, const char *fetch, bool older)
{
    char *text = format("%s", "");
    while (text && *fetch) {
        size_t length = strcspn(fetch, "{$");
        char *part = NULL, *longer = NULL;
        if (length) {
            part = format("%.*s", (int)length, fetch);
        } else if (*fetch == '{') {
            length = strcspn(fetch, "}") + 1;
            part = placeholder(btf, fetch + 1, length - 2);
        } else if (older && strncmp(fetch, "$arg", 4) == 0) {
            length = strlen("$arg1");
            part = format("%s", registers[fetch[4] - '1']);
        } else {
            length = 1;
            part = format("$");
        }
        if (part)
            longer = format("%s%s", text, part);
        free(part);
        free(text);
        text = longer;
        fetch += length;
    }
    return text;
}

/* -- definition ---------------------------------------------------------------------------------------------------- */

/* dynamic_events (since 5.0) accepts all kinds, kprobe_events only kprobes. */
static int command(int tracefs, const char *text)
{
    const char *file = faccessat(tracefs, "dynamic_events", W_OK, 0) == 0 ? "dynamic_events" : "kprobe_events";
    return file_command(tracefs, file, text, O_APPEND);
}

static bool define_text(int tracefs, const struct definition *definition, const char *fetch)
{
    char *text = format("%s:" GROUP "/%s %s %s", definition->kind, definition->name, definition->place, fetch);
    bool defined = command(tracefs, text) == 0 || errno == EEXIST;
    free(text);
    return defined;
}

static bool has_structs(struct btf *btf, const struct definition *definition)
{
    for (unsigned position = 0; position < 4; position++)
        if (definition->structs[position] &&
            (!btf || !btf_argument_is(btf, definition->place, position, definition->structs[position])))
            return false;
    return true;
}

/* Define an event. Returns whether it exists now. */
static bool define_one(int tracefs, struct btf *btf, const struct definition *definition)
{
    bool defined = false;
    int ways = strcmp(definition->kind, "p") == 0 ? 2 : 1;
    for (int older = 0; !defined && older < ways; older++) {
        char *fetch = expanded(btf, definition->fetch, older);
        defined = fetch && define_text(tracefs, definition, fetch);
        free(fetch);
    }
    return defined;
}

static bool define(int tracefs, struct btf *btf, const char *name)
{
    for (size_t i = 0; i < NR_DEFINITIONS; i++)
        if (strcmp(definitions[i].name, name) == 0 && has_structs(btf, &definitions[i]) &&
            define_one(tracefs, btf, &definitions[i]))
            return true;
    return false;
}

/* -- selection ---------------------------------------------------------------------------------------------------- */

static void select_if(bool defined, struct selection *selection, const char *name, char *filter)
{
    if (defined) {
        selection_add(selection, GROUP, name, filter);
        return;
    }
    free(filter);
    selection_miss(selection, GROUP, name);
}

/* Filters out two kinds of bios:
 * - Bios without pages (flush, discard), and pages without an inode. If the kernel cannot fetch a value, the buffer
 *   contains that of another record. A bio without pages may point to those of another one.
 * - Bios that were partly completed before (idx, done): they do not begin with their first page. */
static char *bio_filter(const struct topology *topology)
{
    char *devices = filter_devices(topology, "dev");
    char *filter =
        format("(%s) && vcnt != 0 && idx == 0 && done == 0 && mapping != 0 && !(mapping & 3) && host != 0", devices);
    free(devices);
    return filter;
}

/* Select name events. Paths from system calls are the second choice, because they do not identify an inode. */
static void select_names(int tracefs, const struct topology *topology, struct btf *btf, struct selection *selection)
{
    if (define(tracefs, btf, "name_found")) {
        selection_add(selection, GROUP, "name_found", filter_devices(topology, "dev"));
    } else {
        select_if(define(tracefs, btf, "name_open"), selection, "name_open", format("flags & %d", O_CREAT));
        select_if(define(tracefs, btf, "name_unlink"), selection, "name_unlink", NULL);
    }
    if (define(tracefs, btf, "name_moved"))
        selection_add(selection, GROUP, "name_moved", filter_devices(topology, "dev"));
    else
        select_if(define(tracefs, btf, "name_rename"), selection, "name_rename", NULL);
}

/* Select events of requested pages for kernels without these tracepoints. */
static void select_asked(int tracefs, const struct topology *topology, struct btf *btf, struct selection *selection)
{
    if (tracefs_has_event(tracefs, "filemap", "mm_filemap_get_pages"))
        return;
    bool reads = define(tracefs, btf, "filemap_read");
    if (reads && has_structs(btf, &splice_read))
        reads = define_one(tracefs, btf, &splice_read);
    select_if(reads, selection, "filemap_read", filter_devices(topology, "dev"));
    select_if(define(tracefs, btf, "mm_filemap_fault"), selection, "mm_filemap_fault",
              filter_devices(topology, "s_dev"));
    select_if(define(tracefs, btf, "mm_filemap_map_pages"), selection, "mm_filemap_map_pages",
              filter_devices(topology, "s_dev"));
}

void dynprobes_define(int tracefs, const struct needs *needs, struct selection *selection)
{
    const struct topology *topology = needs->topology;
    struct btf *btf = btf_open(KERNEL_BTF);
    if (traces_filesystem(topology, is_without_extent_events)) {
        select_if(define(tracefs, btf, "bio_page"), selection, "bio_page", bio_filter(topology));
        bool begins = define(tracefs, btf, "direct_begin");
        select_if(begins, selection, "direct_begin", filter_devices(topology, "dev"));
        select_if(begins && define(tracefs, btf, "direct_end"), selection, "direct_end", NULL);
    }
    if (traces_filesystem(topology, is_ext)) {
        select_if(define(tracefs, btf, "page_mkwrite"), selection, "page_mkwrite", filter_devices(topology, "dev"));
        if (!tracefs_has_event(tracefs, "iomap", "iomap_dio_rw_begin"))
            select_if(define(tracefs, btf, "iomap_dio_rw_begin"), selection, "iomap_dio_rw_begin",
                      filter_devices(topology, "dev"));
    }
    if (needs->readahead)
        select_asked(tracefs, topology, btf, selection);
    select_names(tracefs, topology, btf, selection);
    btf_close(btf);
}

/* The struct begins with the name and the pointer from the program. Compilers split getname_flags, and most callers
 * then call the second part. Many threads may be in it at once, waiting for memory, so the probe allows 512 instances;
 * a number is accepted since Linux 4.12. */
static bool define_path(int tracefs)
{
    static const char *const functions[] = {"getname_flags.part.0", "getname_flags"}, *const kinds[] = {"r512", "r"};
    struct utsname name;
    uname(&name);
    bool wide = strstr(name.machine, "64") != NULL;
    for (size_t i = 0; i < 4; i++) {
        const struct definition path = {"call_path", kinds[i % 2], functions[i / 2], {NULL}, ""};
        if (define_text(tracefs, &path,
                        wide ? "user=+8($retval):x64 path=+0(+0($retval)):string"
                             : "user=+4($retval):x32 path=+0(+0($retval)):string"))
            return true;
    }
    return false;
}

bool dynprobes_define_calls(int tracefs, struct selection *selection)
{
    bool paths = define_path(tracefs);
    struct btf *btf = btf_open(KERNEL_BTF);
    select_if(paths, selection, "call_path", filter_others());
    select_if(define(tracefs, btf, "call_fd"), selection, "call_fd", filter_others());
    btf_close(btf);
    return paths;
}

static void remove_one(int tracefs, const char *name)
{
    char *path = format("events/" GROUP "/%s/format", name), *text = format("-:" GROUP "/%s", name);
    if (faccessat(tracefs, path, F_OK, 0) == 0)
        command(tracefs, text);
    free(path);
    free(text);
}

void dynprobes_remove(int tracefs)
{
    for (size_t i = 0; i < NR_DEFINITIONS; i++)
        remove_one(tracefs, definitions[i].name);
    remove_one(tracefs, "call_path");
}
