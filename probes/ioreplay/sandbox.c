/* Enters and leaves the directory of a replay. */
#include "ioreplay/replay.h"

#include <linux/magic.h>
#include <sys/file.h>

/* -- opening ---------------------------------------------------------------------------------------------------- */

static int open_descriptors(struct sandbox *sandbox)
{
    struct statfs about;
    sandbox->descriptors = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (sandbox->descriptors >= 0 && fstatfs(sandbox->descriptors, &about) == 0 && about.f_type == PROC_SUPER_MAGIC)
        return 0;
    return print_error("/proc/self/fd cannot be read; it is needed to open files that no other process can replace: "
                       "mount proc on /proc");
}

/* Split off the directory's name and open its parent. */
static int split(struct sandbox *sandbox, const char *directory)
{
    char *whole = format("%s", directory), *slash;
    size_t length = strlen(directory);
    while (length > 1 && whole[length - 1] == '/')
        whole[--length] = '\0';
    slash = strrchr(whole, '/');
    sandbox->name = format("%s", slash && length > 1 ? slash + 1 : whole);
    if (slash)
        slash[1] = '\0';
    sandbox->parent = open(slash ? whole : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(whole);
    if (sandbox->parent < 0)
        return print_error("%s: %s; give a directory that is there, or a new one in it", directory, strerror(errno));
    return 0;
}

static int open_directory(struct sandbox *sandbox)
{
    sandbox->made = mkdirat(sandbox->parent, sandbox->name, 0700) == 0;
    if (!sandbox->made && errno != EEXIST)
        return print_error("%s: %s; it cannot be made", sandbox->shown, strerror(errno));
    sandbox->beneath.directory =
        openat(sandbox->parent, sandbox->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (sandbox->made ? O_NOFOLLOW : 0));
    if (sandbox->beneath.directory < 0 || fstat(sandbox->beneath.directory, &sandbox->about) < 0)
        return print_error("%s: %s; a replay needs a directory", sandbox->shown, strerror(errno));
    return 0;
}

/* -- checks ----------------------------------------------------------------------------------------------------- */

/* Return 1 if directory `name` of the open one has entries other than `ignored`, 0 if not, or -1 with errno set. */
static int has_entries(int directory, const char *name, const char *ignored)
{
    int opened = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), others = 0;
    DIR *entries = opened < 0 ? NULL : fdopendir(opened);
    if (!entries && opened >= 0)
        close(opened);
    if (!entries)
        return -1;
    for (struct dirent *entry; (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && strcmp(entry->d_name, ignored))
            others = 1;
    closedir(entries);
    return others;
}

/* Return whether the directory has an empty lost+found of the filesystem whose root it is. */
static bool has_lost_and_found(const struct sandbox *sandbox)
{
    struct stat above;
    if (fstat(sandbox->parent, &above) < 0 || above.st_dev == sandbox->about.st_dev)
        return false;
    int others = has_entries(sandbox->beneath.directory, LOST_AND_FOUND, "");
    return others == 0 || (others < 0 && errno == EACCES);
}

static int check_empty(struct sandbox *sandbox)
{
    sandbox->has_lost_and_found = has_lost_and_found(sandbox);
    int others = has_entries(sandbox->beneath.directory, ".", sandbox->has_lost_and_found ? LOST_AND_FOUND : "");
    if (others < 0)
        return print_error("%s: %s; its entries cannot be read", sandbox->shown, strerror(errno));
    if (others)
        return print_error("%s is not empty; remove its contents if a killed replay left them, or give an empty "
                           "directory or the name of a new one",
                           sandbox->shown);
    return 0;
}

static bool is_root(const struct sandbox *sandbox)
{
    struct stat root;
    return stat("/", &root) == 0 && root.st_dev == sandbox->about.st_dev && root.st_ino == sandbox->about.st_ino;
}

/* Check the owner: another owner could add links to their files, which the replay would then change. */
static int check_owner(const struct sandbox *sandbox)
{
    if (is_root(sandbox))
        return print_error("%s is the root directory; give an empty directory, or the name of a new one",
                           sandbox->shown);
    if (!sandbox->made && sandbox->about.st_uid != geteuid())
        return print_error("%s belongs to another user; give the name of a new directory", sandbox->shown);
    return 0;
}

static int lock(const struct sandbox *sandbox)
{
    if (flock(sandbox->beneath.directory, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return print_error("%s is in use by another replay; wait for its end", sandbox->shown);
    return 0;
}

/* Deny access to others. Filesystems without modes refuse to change them. */
static int close_to_others(struct sandbox *sandbox)
{
    struct stat about;
    sandbox->closed = fchmod(sandbox->beneath.directory, 0700) == 0;
    if (fstat(sandbox->beneath.directory, &about) < 0 || about.st_mode & 022)
        return print_error(
            "%s: other users may write to it, and its mode cannot be changed; give a directory elsewhere",
            sandbox->shown);
    return 0;
}

/* Check the directory before changing its mode, because nothing must change if it is rejected, and again when no other
 * user can add entries. */
static int take(struct sandbox *sandbox)
{
    if (check_owner(sandbox) < 0 || lock(sandbox) < 0 || check_empty(sandbox) < 0 || close_to_others(sandbox) < 0 ||
        check_empty(sandbox) < 0)
        return -1;
    beneath_begin(&sandbox->beneath, sandbox->beneath.directory, sandbox->about.st_dev);
    return 0;
}

/* -- enter and leave -------------------------------------------------------------------------------------------- */

static void release(struct sandbox *sandbox)
{
    close_file(sandbox->beneath.directory);
    close_file(sandbox->descriptors);
    close_file(sandbox->parent);
    free(sandbox->name);
    free(sandbox->shown);
    free(sandbox);
}

/* Restore the state before sandbox_enter, except for the contents. */
static int give_back(const struct sandbox *sandbox, bool keep)
{
    if (sandbox->closed && !sandbox->made)
        fchmod(sandbox->beneath.directory, sandbox->about.st_mode & 07777);
    if (sandbox->made && !keep && unlinkat(sandbox->parent, sandbox->name, AT_REMOVEDIR) < 0)
        return print_error("%s: %s; remove it yourself", sandbox->shown, strerror(errno));
    return 0;
}

struct sandbox *sandbox_enter(const char *directory)
{
    struct sandbox *sandbox = zeroed(1, sizeof *sandbox);
    *sandbox = (struct sandbox){.shown = format("%s", directory), -1, .descriptors = -1, .beneath.directory = -1};
    if (open_descriptors(sandbox) == 0 && split(sandbox, directory) == 0 && open_directory(sandbox) == 0 &&
        take(sandbox) == 0)
        return sandbox;
    give_back(sandbox, false);
    release(sandbox);
    return NULL;
}

int sandbox_leave(struct sandbox *sandbox, bool keep)
{
    int result = keep ? 0 : sandbox_empty(sandbox);
    if (give_back(sandbox, keep || result < 0) < 0)
        result = -1;
    release(sandbox);
    return result;
}
