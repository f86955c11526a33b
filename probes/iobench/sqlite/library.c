#include "iobench/sqlite/library.h"

#include <dlfcn.h>
#include <sys/auxv.h>

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define SQLITE_PLACE(name) {"sqlite3_" #name, offsetof(struct sqlite_library, name)},
    SQLITE_FUNCTIONS(SQLITE_PLACE)
#undef SQLITE_PLACE
};

static const struct sqlite_library linked_in = {.loaded = NULL,
#define SQLITE_LINKED(name) .name = sqlite3_##name,
                                                SQLITE_FUNCTIONS(SQLITE_LINKED)
#undef SQLITE_LINKED
};

/* Return whether the kernel started this program without a dynamic linker. */
static bool is_static(void)
{
    return getauxval(AT_BASE) == 0;
}

static int find_functions(struct sqlite_library *library, const char *path)
{
    for (size_t index = 0; index < sizeof functions / sizeof *functions; index++) {
        void *found = dlsym(library->loaded, functions[index].name);
        if (!found)
            return print_error("%s has no %s: iobench needs SQLite 3.7.6 or newer", path, functions[index].name);
        memcpy((char *)library + functions[index].offset, &found, sizeof found);
    }
    return 0;
}

int sqlite_library_open(struct sqlite_library *library, const char *path)
{
    *library = linked_in;
    if (!path)
        return 0;
    if (is_static())
        return print_error(
            "--sqlite-library %s: this iobench is linked statically and can load no library; use one that "
            "is not (build/probes/native/iobench; on a phone that of make probes-bionic), or the SQLite "
            "within (without this option)",
            path);
    library->loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library->loaded)
        return print_error("--sqlite-library: %s; expected the path or name of a shared libsqlite3", dlerror());
    if (find_functions(library, path) < 0) {
        sqlite_library_close(library);
        return -1;
    }
    return 0;
}

void sqlite_library_close(struct sqlite_library *library)
{
    if (library->loaded)
        dlclose(library->loaded);
    library->loaded = NULL;
}

/* Append the rows of the statement to `text`, as many as fit completely. */
static void add_rows(const struct sqlite_library *library, sqlite3_stmt *statement, char *text, size_t size)
{
    size_t used = strlen(text);
    while (library->step(statement) == SQLITE_ROW) {
        const char *option = (const char *)library->column_text(statement, 0);
        int length = option ? snprintf(text + used, size - used, " %s", option) : 0;
        if (length < 0 || (size_t)length >= size - used) {
            text[used] = 0;
            return;
        }
        used += (size_t)length;
    }
}

int sqlite_library_describe(const struct sqlite_library *library, char *text, size_t size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    snprintf(text, size, "%s", library->libversion());
    if (library->open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ||
        library->prepare_v2(db, "PRAGMA compile_options", -1, &statement, NULL)) {
        print_error("cannot read the compile options of SQLite %s: %s", text, library->errmsg(db));
        library->close(db);
        return -1;
    }
    add_rows(library, statement, text, size);
    library->finalize(statement);
    library->close(db);
    return 0;
}
