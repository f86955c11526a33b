/* Mappings of device-mapper devices. */
#pragma once

#include "common/base.h"

/* Read the table of a dm device that is one `linear` target. Sets `target` to the device that it maps to as MAJ:MIN
 * (freed by the caller) and `start` to the first sector there. Returns false for any other table and if the table
 * cannot be read. */
bool devmapper_linear(unsigned major, unsigned minor, char **target, uint64_t *start);
