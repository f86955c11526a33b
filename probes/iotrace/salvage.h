/* Remains of killed iotrace processes: instances in tracefs, and DIR/unfinished. */
#pragma once

/* Remove the instances of dead iotrace processes, and the dynamic probes if no live one exists. The contents of an
 * instance are first saved in its output directory for salvage_finish. Each removal is printed. Returns the number of
 * instances that could not be removed. */
int salvage_instances(int tracefs);

/* Pack the interrupted recording in `path` with the rest of its instance. Returns -1 after printing an error. */
int salvage_finish(const char *path);
