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
 * For the system calls of calls.h, in the calling thread and before the call returns:
 *
 *   call_path     A path argument of the call: path, and its address in the program (user), which identifies the
 *                 argument. Empty, with user 0, if the kernel refused it.
 *   call_fd       A descriptor (fd) is installed for an open file, socket or other object: flags (O_..., without those
 *                 that only apply while opening), mode (type and permissions), size, generation, and dev, ino, parent
 *                 and names as in name_found. Includes descriptors received through a socket, but not those of dup2,
 *                 dup3 and fork. Needs the kernel's BTF.
 *
 * The definitions are global in the kernel and not part of an instance: several iotrace processes share them. */
#pragma once

#include "iotrace/presets.h"

/* Define the events that the kernel supports and add them to `selection`; add the others to its absent events. */
void dynprobes_define(int tracefs, const struct needs *needs, struct selection *selection);

/* Define and add the events of system calls. Returns whether paths will be recorded. */
bool dynprobes_define_calls(int tracefs, struct selection *selection);

/* Remove the definitions that no other instance uses. */
void dynprobes_remove(int tracefs);
