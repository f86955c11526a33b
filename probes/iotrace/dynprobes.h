/*
 * Events that iotrace defines itself, in group `androstep`, where the kernel can (kprobes, or probes on events):
 *
 *   bio_page     a bio is submitted: dev, opf, sector, size, and of its first page ino, index, sdev and name, read from
 *                the page cache, and where in that page the data begins (offset); the only evidence on filesystems
 *                without events for extents. Bios whose pages are not of a file (direct I/O from anonymous memory,
 *                encryption's bounce pages) are left out.
 *   page_mkwrite a process is about to store to a page of a file on ext4 through a memory map, for the first time since
 *                the page was written out: dev, ino, index, and since Linux 5.17 within, the last 16 bits of the
 *                address. No other event tells of it where the page is dirty already.
 *   iomap_dio_rw_begin  what the kernel's event of that name tells, in kernels that do not have it (before 6.5): a
 *                thread begins a direct read or write of ext4: dev, ino, pos, count
 *   direct_begin a thread begins a direct read or write of a filesystem without such events of its own: dev, ino, pos,
 *                count. No bio_page tells of its bios: they carry the thread's memory. Absent before Linux 4.1.
 *   direct_end   it has submitted all bios of that read or write: moved (bytes, or a negative error number)
 *   filemap_read a read call begins that reads through the page cache: dev, ino, pos, count, and last, the page in
 * which the file ends. With mm_filemap_fault and mm_filemap_map_pages, which tell what the kernel's events of these
 * names tell, in kernels that do not have them (before 6.12), on demand. name_found   a file is opened: dev, ino,
 * parent (inode of its directory), and the names on its path in the filesystem from the last (d0) up to the root, "/",
 * as far as they fit name_moved   a file or directory gets another name: the same, and the new names (n0 …)
 *
 * Where these two cannot be had (they need the kernel's BTF), the paths that programs give:
 *
 *   name_open    a file is opened and may be created (O_CREAT): name, flags
 *   name_unlink  name
 *   name_rename  name, new_name
 *
 * For the system calls of calls.h, in the thread that calls and before the call returns:
 *
 *   call_path    a path that the call was given: path, and its address in the program (user), by which it is known
 *                which argument it was. Empty, with user 0, where the kernel refused it.
 *   call_fd      a number (fd) now stands for an open file, socket or whatever has descriptors: flags (O_..., without
 *                those that count only while opening), mode (type and permissions), size, generation, and dev, ino,
 *                parent and names as in name_found. Descriptors that were passed by a socket are told, too; those of
 *                dup2, dup3 and fork are not. Needs the kernel's BTF.
 *
 * The definitions are the kernel's, not an instance's: several iotraces share them.
 */
#ifndef ANDROSTEP_IOTRACE_DYNPROBES_H
#define ANDROSTEP_IOTRACE_DYNPROBES_H

#include "iotrace/presets.h"

/* Defines what the kernel offers of these and adds it to `selection`, the rest to its absent events. */
void dynprobes_define(int tracefs, const struct needs *needs, struct selection *selection);

/* Defines and adds those of system calls. Returns whether paths will be told. */
bool dynprobes_define_calls(int tracefs, struct selection *selection);

/* Removes the definitions, but for those that another instance has in use. */
void dynprobes_remove(int tracefs);

#endif
