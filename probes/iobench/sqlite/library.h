/* SQLite's functions, from the linked library or from one that is loaded. */
#pragma once

#include "common/base.h"
#include "sqlite3.h"

/* All functions that iobench calls. SQLite 3.7.6 (2011) is the first version that has them. */
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
    void *loaded; /* by dlopen; NULL: linked */
#define SQLITE_MEMBER(name) __typeof__(sqlite3_##name) *name;
    SQLITE_FUNCTIONS(SQLITE_MEMBER)
#undef SQLITE_MEMBER
};

/* Open a library. `path` is for dlopen: a file, or a name such as libsqlite3.so.0; NULL: the linked library. Returns 0,
 * or -1 after printing an error. */
int sqlite_library_open(struct sqlite_library *library, const char *path);
void sqlite_library_close(struct sqlite_library *library);

/* Write version and compile options in one line, truncated between options. Returns 0, or -1 after printing an
 * error. */
int sqlite_library_describe(const struct sqlite_library *library, char *text, size_t size);
