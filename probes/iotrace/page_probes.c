#define _GNU_SOURCE
#include "iotrace/page_probes.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/files.h"
#include "iotrace/kprobes.h"
#include "iotrace/presets.h"

#define DIRECT "__blockdev_direct_IO" /* direct I/O of filesystems that do not use iomap */

/* Return the offset of a member that may have been renamed, or -1. */
static long offset_of(const struct btf *btf, const char *structure, const char *path, const char *renamed)
{
    long offset = btf_offset(btf, structure, path);
    return offset < 0 && renamed ? btf_offset(btf, structure, renamed) : offset;
}

/* Return the location of a bio's device: in its block_device, or (4.14 to 5.11) in the first partition of its disk. */
static char *bio_device(const struct btf *btf)
{
    long bdev = btf_offset(btf, "bio", "bi_bdev"), dev = btf_offset(btf, "block_device", "bd_dev");
    if (bdev < 0 || dev < 0) {
        bdev = btf_offset(btf, "bio", "bi_disk");
        dev = btf_offset(btf, "gendisk", "part0.__dev.devt");
    }
    return bdev < 0 || dev < 0 ? NULL : format("+%ld(+%ld($arg1))", dev, bdev);
}

/* Return fetch arguments of bio_page, or NULL if a struct has an unknown layout. */
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

/* Filters out two kinds of bios:
 * - Bios without pages (flush, discard), and pages without an inode. If the kernel cannot fetch a value, the buffer
 *   contains that of another record. A bio without pages may point to those of another one.
 * - Bios that were partly completed before (idx, done): they do not begin with their first page. */
char *page_probes_bio_filter(const struct topology *topology)
{
    char *devices = filter_devices(topology, "dev");
    char *filter =
        format("(%s) && vcnt != 0 && idx == 0 && done == 0 && mapping != 0 && !(mapping & 3) && host != 0", devices);
    free(devices);
    return filter;
}

bool page_probes_define_bio_page(int tracefs, const struct btf *btf)
{
    char *arguments = btf ? bio_page_arguments(btf) : NULL;
    bool defined = arguments && kprobe_define_entry(tracefs, "bio_page", "submit_bio", arguments);
    free(arguments);
    return defined;
}

/* Return fetch arguments of direct_begin, or NULL if the function (before Linux 4.1) or a struct has an unknown
 * layout. */
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

bool page_probes_define_direct_begin(int tracefs, const struct btf *btf)
{
    char *arguments = btf ? direct_arguments(btf) : NULL;
    bool defined = arguments && kprobe_define_entry(tracefs, "direct_begin", DIRECT, arguments);
    free(arguments);
    return defined;
}

bool page_probes_define_direct_end(int tracefs)
{
    return kprobe_define(tracefs, "r", "direct_end", DIRECT, "moved=$retval:s64");
}

/* Return fetch arguments for the inode of an open file, with the field names `dev` and `number`, followed by `place`.
 * Returns NULL if a struct has an unknown layout. */
static char *inode_arguments(const struct btf *btf, const char *dev, const char *number, const char *file,
                             const char *place)
{
    long inode = btf_offset(btf, "file", "f_inode"), ino = btf_offset(btf, "inode", "i_ino");
    long sb = btf_offset(btf, "inode", "i_sb"), sdev = btf_offset(btf, "super_block", "s_dev");
    if (inode < 0 || ino < 0 || sb < 0 || sdev < 0)
        return NULL;
    return format("%s=+%ld(+%ld(+%ld(%s))):u32 %s=+%ld(+%ld(%s)):u64 %s", dev, sdev, sb, inode, file, number, ino,
                  inode, file, place);
}

static char *file_arguments(const struct btf *btf, const char *file, const char *place)
{
    return inode_arguments(btf, "dev", "ino", file, place);
}

/* Probes ext4_page_mkwrite, which handles all stores of ext4 through a map. It has this argument since Linux 4.11. */
bool page_probes_define_page_mkwrite(int tracefs, const struct btf *btf)
{
    long vma = btf ? btf_offset(btf, "vm_fault", "vma") : -1, index = btf ? btf_offset(btf, "vm_fault", "pgoff") : -1;
    long file = btf ? btf_offset(btf, "vm_area_struct", "vm_file") : -1;
    if (vma < 0 || index < 0 || file < 0)
        return false;
    long address = btf_offset(btf, "vm_fault", "real_address"); /* since Linux 5.17 */
    char *mapped = format("+%ld(+%ld($arg1))", file, vma), *page = format("index=+%ld($arg1):u64", index);
    /* Only the offset in the largest page: the rest of the address is a secret of the process. */
    char *place = address < 0 ? format("%s", page) : format("%s within=+%ld($arg1):b16@0/64", page, address);
    char *arguments = file_arguments(btf, mapped, place);
    bool defined = arguments && kprobe_define_entry(tracefs, "page_mkwrite", "ext4_page_mkwrite", arguments);
    free(mapped);
    free(page);
    free(place);
    free(arguments);
    return defined;
}

/* For kernels without the tracepoint. Linux 5.11 split the function in two. */
bool page_probes_define_iomap_begin(int tracefs, const struct btf *btf)
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
                  kprobe_define_entry(tracefs, "iomap_dio_rw_begin", functions[i], arguments);
    free(opened);
    free(place);
    free(arguments);
    return defined;
}

/* Probe a read of an open file through the page cache at this position. Since Linux 6.5 splice has its own function. */
static bool define_read(int tracefs, const struct btf *btf, const char *function, const char *file, const char *pos,
                        const char *count)
{
    long inode = btf_offset(btf, "file", "f_inode"), size = btf_offset(btf, "inode", "i_size");
    if (inode < 0 || size < 0)
        return false;
    int shift = __builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
    char *place = format("pos=%s:s64 count=%s:u64 last=+%ld(+%ld(%s)):b%d@%d/64", pos, count, size, inode, file,
                         64 - shift, shift);
    char *arguments = file_arguments(btf, file, place);
    bool defined = arguments && kprobe_define_entry(tracefs, "filemap_read", function, arguments);
    free(place);
    free(arguments);
    return defined;
}

bool page_probes_define_reads(int tracefs, const struct btf *btf)
{
    static const char *const functions[] = {"filemap_read", "generic_file_buffered_read"}; /* until Linux 5.11 */
    long file = btf ? btf_offset(btf, "kiocb", "ki_filp") : -1, pos = btf ? btf_offset(btf, "kiocb", "ki_pos") : -1;
    long count = btf ? btf_offset(btf, "iov_iter", "count") : -1;
    if (file < 0 || pos < 0 || count < 0)
        return false;
    char *opened = format("+%ld($arg1)", file), *from = format("+%ld($arg1)", pos),
         *bytes = format("+%ld($arg2)", count);
    bool defined = false;
    for (size_t i = 0; !defined && i < sizeof functions / sizeof *functions; i++)
        defined = btf_argument_is(btf, functions[i], 0, "kiocb") && btf_argument_is(btf, functions[i], 1, "iov_iter") &&
                  define_read(tracefs, btf, functions[i], opened, from, bytes);
    if (defined && btf_argument_is(btf, "filemap_splice_read", 0, "file"))
        defined = define_read(tracefs, btf, "filemap_splice_read", "$arg1", "+0($arg2)", "$arg4");
    free(opened);
    free(from);
    free(bytes);
    return defined;
}

/* Same as the kernel's later events of these names. */
static bool define_fault(int tracefs, const struct btf *btf, const char *event, const char *function,
                         const char *further)
{
    long vma = btf ? btf_offset(btf, "vm_fault", "vma") : -1,
         file = btf ? btf_offset(btf, "vm_area_struct", "vm_file") : -1;
    long index = btf ? btf_offset(btf, "vm_fault", "pgoff") : -1;
    if (vma < 0 || file < 0 || index < 0 || !btf_argument_is(btf, function, 0, "vm_fault"))
        return false;
    char *mapped = format("+%ld(+%ld($arg1))", file, vma);
    char *place = further ? format("%s", further) : format("index=+%ld($arg1):u64", index);
    char *arguments = inode_arguments(btf, "s_dev", "i_ino", mapped, place);
    bool defined = arguments && kprobe_define_entry(tracefs, event, function, arguments);
    free(mapped);
    free(place);
    free(arguments);
    return defined;
}

bool page_probes_define_faults(int tracefs, const struct btf *btf)
{
    return define_fault(tracefs, btf, "mm_filemap_fault", "filemap_fault", NULL);
}

bool page_probes_define_maps(int tracefs, const struct btf *btf)
{
    return define_fault(tracefs, btf, "mm_filemap_map_pages", "filemap_map_pages",
                        "index=$arg2:u64 last_index=$arg3:u64");
}
