#include "extmap/extmap.h"

#include "common/opts.h"

static const struct record_type *const types[] = {EXTMAP_TYPES};
static const struct record_probe probe = {"extmap", types, sizeof types / sizeof *types};

struct command {
    const char *output;
    bool tasks, same_filesystem, describe, help;
};

static const char about[] =
    "Lists the extents of every file below ROOT as reported by the mounted filesystem (FIEMAP, else\n"
    "FIBMAP), and the names, sizes and times of the files. It does not follow symbolic links or enter\n"
    "other mounts. Files hidden below a mount point are not listed: list their filesystem at a mount\n"
    "without other mounts on it. Run as root; otherwise only files that you may open are listed.";

static const char more[] =
    "Files that change, vanish or cannot be read during the listing are counted in FILE. Dirty data in\n"
    "memory may have no blocks yet and is listed without them: sync first. FILE is a record stream\n"
    "(probes/FORMAT.md).\n"
    "\n"
    "examples:\n"
    "  sync; extmap -o /dev/shm/data.rec --tasks /data\n"
    "  adb exec-out su -c 'extmap -o - /data' > data.rec\n"
    "\n"
    "Exit status: 0 when the listing is complete except for the losses it counts, else 1.";

/* Return the device of the output file, or of its directory; 0 if neither exists. */
static dev_t output_device(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat where;
    if (!strcmp(path, "-"))
        return fstat(1, &where) || !S_ISREG(where.st_mode) ? 0 : where.st_dev;
    if (!stat(path, &where))
        return S_ISREG(where.st_mode) ? where.st_dev : 0;
    char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int failed = !directory || stat(directory, &where);
    free(directory);
    return failed ? 0 : where.st_dev;
}

static int check_roots(const struct command *command, char **roots)
{
    dev_t device = output_device(command->output);
    for (; *roots; roots++) {
        struct stat root;
        if (stat(*roots, &root))
            return print_error("%s: cannot be listed (%s)", *roots, strerror(errno));
        if (!command->same_filesystem && root.st_dev == device)
            return print_error("%s lies in the filesystem of %s, which writing would change; write elsewhere, or give "
                               "--same-filesystem",
                               command->output, *roots);
    }
    return 0;
}

static int list(const struct command *command, char **roots)
{
    int failed = 0;
    if (!command->output)
        return print_error("name the file to write: -o FILE");
    if (!*roots && !command->tasks)
        return print_error("name a directory to list, or give --tasks; see --help");
    if (check_roots(command, roots))
        return -1;
    struct record *out = record_open(command->output, &probe);
    if (!out)
        return -1;
    for (; *roots && !failed; roots++)
        failed = extmap_tree(*roots, out);
    if (command->tasks && !failed)
        failed = extmap_tasks(out);
    return record_close(out) || failed ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct command command = {0};
    const struct opt table[] = {
        {OPT_TEXT, 'o', "output", "FILE", &command.output, 0, 0, "write the records to FILE; -: standard output"},
        {OPT_FLAG, 0, "tasks", NULL, &command.tasks, 0, 0,
         "also list all threads, with user, command line and Android package"},
        {OPT_FLAG, 0, "same-filesystem", NULL, &command.same_filesystem, 0, 0,
         "allow FILE to lie in a filesystem that is listed"},
        OPT_DESCRIBE(&command.describe),
        OPT_HELP(&command.help),
    };
    const struct opts opts = {"-o FILE [--tasks] [ROOT...]", about, more, table, sizeof table / sizeof *table, NULL};
    int first = opts_parse(&opts, argc, argv);
    int failed;
    if (first < 0)
        return 1;
    if (command.help)
        failed = opts_help(stdout, &opts, "extmap");
    else if (command.describe)
        failed = record_describe(stdout, &probe);
    else
        failed = list(&command, argv + first);
    return failed ? 1 : 0;
}
