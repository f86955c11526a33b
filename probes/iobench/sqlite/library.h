/* SQLite's functions, of the library that is linked in or of one that is loaded. */
#ifndef ANDROSTEP_IOBENCH_SQLITE_LIBRARY_H
#define ANDROSTEP_IOBENCH_SQLITE_LIBRARY_H

#include <stddef.h>

#include "sqlite3.h"

/* All that iobench calls; SQLite 3.7.6 (2011) is the first that has them. */
#define SQLITE_FUNCTIONS(EACH)                                                                                         \
    EACH(bind_int64)                                                                                                   \
    EACH(bind_text)                                                                                                    \
    EACH(busy_handler)                                                                                                 \
    EACH(changes)                                                                                                      \
    EACH(close)                                                                                                        \
    EACH(column_bytes)                                                                                                 \
    EACH(column_int64)                                                                                                 \
    EACH(column_text)                                                                                                  \
    EACH(errmsg)                                                                                                       \
    EACH(finalize)                                                                                                     \
    EACH(libversion)                                                                                                   \
    EACH(limit)                                                                                                        \
    EACH(open_v2)                                                                                                      \
    EACH(prepare_v2)                                                                                                   \
    EACH(reset)                                                                                                        \
    EACH(step)                                                                                                         \
    EACH(threadsafe)                                                                                                   \
    EACH(wal_checkpoint_v2)                                                                                            \
    EACH(wal_hook)

struct sqlite_library {
    void *loaded; /* by dlopen; NULL: linked in */
#define SQLITE_MEMBER(name) __typeof__(sqlite3_##name) *name;
    SQLITE_FUNCTIONS(SQLITE_MEMBER)
#undef SQLITE_MEMBER
};

/* `path` is for dlopen: a file, or a name such as libsqlite3.so.0; NULL: the library that is linked in. Returns 0, or
 * -1 after it complained. */
int sqlite_library_open(struct sqlite_library *library, const char *path);
void sqlite_library_close(struct sqlite_library *library);

/* Version and compile options in one line; of more than fit, the first. Returns 0, or -1 after it complained. */
int sqlite_library_describe(const struct sqlite_library *library, char *text, size_t size);

#endif
