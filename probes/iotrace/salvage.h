/* What iotraces left that were killed: instances in tracefs, and DIR/unfinished. */
#ifndef ANDROSTEP_IOTRACE_SALVAGE_H
#define ANDROSTEP_IOTRACE_SALVAGE_H

/* Removes the instances of dead iotraces, and the dynamic probes where no live one has them. What is in an instance is
 * first saved in the directory it was recorded into, for salvage_finish. Each is reported on standard error. Returns
 * how many could not be removed. */
int salvage_instances(int tracefs);

/* Packs the recording into `path` that was broken off, with what its instance still holds. Returns -1 with a sentence
 * on standard error. */
int salvage_finish(const char *path);

#endif
