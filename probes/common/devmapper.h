/* What device-mapper devices map to. */
#ifndef ANDROSTEP_COMMON_DEVMAPPER_H
#define ANDROSTEP_COMMON_DEVMAPPER_H

#include <stdbool.h>
#include <stdint.h>

/* Where the table of a dm device is one `linear` target: the device it maps to as MAJ:MIN (for the caller to free)
 * and the first sector there. False for any other table, and where the table cannot be read. */
bool devmapper_linear(unsigned major, unsigned minor, char **target, uint64_t *start);

#endif
