/* Removes everything in the directory of a replay, however deep. Subdirectories are first moved up, so that no path has
 * to be remembered and few descriptors are needed. */
#include "ioreplay/replay.h"

struct emptying {
    const struct sandbox *sandbox;
    uint64_t moved; /* directories moved so far, used for their new names */
    /* state of one pass through the directory: */
    bool removed;            /* an entry was removed */
    int error;               /* of the first entry that could not be removed; 0: none */
    char name[NAME_MAX + 1]; /* of this entry */
};

static void keep_in_mind(struct emptying *emptying, const char *name, int error)
{
    if (emptying->error)
        return;
    snprintf(emptying->name, sizeof emptying->name, "%s", name);
    emptying->error = error;
}

static bool is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
}

/* Open a directory after setting the permissions to empty it. */
static int open_entry(const struct sandbox *sandbox, const char *name)
{
    int error = sandbox_chmod(sandbox, name, 0700);
    return error ? error : sandbox_open(sandbox, name, O_RDONLY | O_DIRECTORY | O_LARGEFILE, 0);
}

/* Move a directory after setting write permission, which changing its ".." entry needs. */
static int move_permitted(const struct emptying *emptying, int from, const char *name, const char *new_name)
{
    struct beneath here = emptying->sandbox->beneath;
    char number[12];
    here.directory = from;
    int node = beneath_find(&here, name, false);
    if (node < 0)
        return node;
    snprintf(number, sizeof number, "%d", node);
    fchmodat(emptying->sandbox->descriptors, number, 0700, 0);
    close(node);
    return renameat(from, name, emptying->sandbox->beneath.directory, new_name) < 0 ? -errno : 0;
}

/* Move directory `name` of `from` to the top. An existing entry with the new name is removed in this pass, and the next
 * pass uses another name. */
static int move_up(struct emptying *emptying, int from, const char *name)
{
    char new_name[32];
    snprintf(new_name, sizeof new_name, ".removed-%" PRIu64, emptying->moved++);
    int error = renameat(from, name, emptying->sandbox->beneath.directory, new_name) < 0 ? -errno : 0;
    return error == -EACCES ? move_permitted(emptying, from, name, new_name) : error;
}

static void empty_entry(struct emptying *emptying, int directory, const char *name)
{
    int error = unlinkat(directory, name, 0) < 0 ? -errno : 0;
    if (error == -EISDIR || error == -EPERM)
        error = move_up(emptying, directory, name);
    if (error)
        keep_in_mind(emptying, name, -error);
    else
        emptying->removed = true;
}

/* Empty a directory and close its descriptor. Only entries that could not be removed are left. */
static void empty_directory(struct emptying *emptying, int descriptor, const char *name)
{
    DIR *entries = fdopendir(descriptor);
    if (!entries) {
        keep_in_mind(emptying, name, errno);
        close(descriptor);
        return;
    }
    for (struct dirent *entry; (entry = readdir(entries));)
        if (is_entry(entry))
            empty_entry(emptying, descriptor, entry->d_name);
    closedir(entries);
}

/* A user without access to lost+found cannot have added anything to it. */
static void remove_directory(struct emptying *emptying, const char *name)
{
    bool stays = emptying->sandbox->has_lost_and_found && !strcmp(name, LOST_AND_FOUND);
    int descriptor = open_entry(emptying->sandbox, name);
    if (descriptor >= 0)
        empty_directory(emptying, descriptor, name);
    if (stays)
        return;
    if (unlinkat(emptying->sandbox->beneath.directory, name, AT_REMOVEDIR) == 0)
        emptying->removed = true;
    else
        keep_in_mind(emptying, name, descriptor < 0 ? -descriptor : errno);
}

static void remove_entry(struct emptying *emptying, const char *name)
{
    if (unlinkat(emptying->sandbox->beneath.directory, name, 0) == 0)
        emptying->removed = true;
    else if (errno == EISDIR || errno == EPERM)
        remove_directory(emptying, name);
    else
        keep_in_mind(emptying, name, errno);
}

/* Repeats until nothing more is removed, because changes during readdir may hide entries. */
int sandbox_empty(const struct sandbox *sandbox)
{
    struct emptying emptying = {.sandbox = sandbox};
    int again = openat(sandbox->beneath.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = again < 0 ? NULL : fdopendir(again);
    if (!entries) {
        close_file(again);
        return print_error("%s: %s; remove its contents yourself", sandbox->shown, strerror(errno));
    }
    do {
        emptying.removed = false;
        emptying.error = 0;
        rewinddir(entries);
        for (struct dirent *entry; (entry = readdir(entries));)
            if (is_entry(entry))
                remove_entry(&emptying, entry->d_name);
    } while (emptying.removed);
    closedir(entries);
    if (!emptying.error)
        return 0;
    return print_error("%s/%s: %s; remove it yourself", sandbox->shown, emptying.name, strerror(emptying.error));
}
