/* Dynamic events about pages of files, their bios, and I/O calls; dynprobes.h describes each. Each function returns
 * whether the event exists now. Without the kernel's type information (NULL) there are none. */
#ifndef ANDROSTEP_IOTRACE_PAGE_PROBES_H
#define ANDROSTEP_IOTRACE_PAGE_PROBES_H

#include <stdbool.h>

#include "common/topology.h"
#include "iotrace/btf.h"

bool page_probes_define_bio_page(int tracefs, const struct btf *btf);
bool page_probes_define_direct_begin(int tracefs, const struct btf *btf);
bool page_probes_define_direct_end(int tracefs);
bool page_probes_define_page_mkwrite(int tracefs, const struct btf *btf);
bool page_probes_define_iomap_begin(int tracefs, const struct btf *btf);
bool page_probes_define_reads(int tracefs, const struct btf *btf);
bool page_probes_define_faults(int tracefs, const struct btf *btf);
bool page_probes_define_maps(int tracefs, const struct btf *btf);

/* Return the filter of bio_page (freed by the caller). */
char *page_probes_bio_filter(const struct topology *topology);

#endif
