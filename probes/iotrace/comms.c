#include "iotrace/iotrace.h"

enum { COMM_BYTES = 16, PROC_COMM_BYTES = 64 };

struct comm {
    long tid;
    size_t order;
    char name[COMM_BYTES];
};

/* Any program can put a newline in its name, which would start a new line here; it is replaced. */
static void add(struct comms *comms, long tid, const char *name)
{
    comms->list = grow(comms->list, comms->nr + 1, sizeof *comms->list);
    struct comm *added = &comms->list[comms->nr];
    *added = (struct comm){.tid = tid, .order = comms->nr++};
    snprintf(added->name, sizeof added->name, "%s", name);
    for (char *c = added->name; *c; c++)
        if (*c == '\n')
            *c = '?';
}

/* Cut off the current work of a kworker, which /proc appends to its name ("kworker/0:1-events"). */
static void cut_work(char *name)
{
    if (strncmp(name, "kworker/", 8) == 0)
        name[strcspn(name, "-+")] = '\0';
}

static void add_threads(struct comms *comms, const char *pid)
{
    char *path = format("/proc/%s/task", pid);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        char name[PROC_COMM_BYTES], *comm = format("%s/%s/comm", path, entry->d_name);
        if (entry->d_name[0] != '.' && procfs_line(comm, name, sizeof name) >= 0) {
            cut_work(name);
            add(comms, strtol(entry->d_name, NULL, 10), name);
        }
        free(comm);
    }
    if (threads)
        closedir(threads);
    free(path);
}

void comms_add_running(struct comms *comms)
{
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            add_threads(comms, entry->d_name);
    if (processes)
        closedir(processes);
}

void comms_add_saved(struct comms *comms, int tracefs)
{
    struct contents file;
    if (file_read(tracefs, "saved_cmdlines", &file) < 0)
        return;
    for (char *rest, *line = strtok_r(file.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *end;
        long tid = strtol(line, &end, 10);
        if (end != line && *end == ' ' && strcmp(end + 1, "<...>") != 0)
            add(comms, tid, end + 1);
    }
    free(file.data);
}

static int by_tid(const void *left, const void *right)
{
    const struct comm *a = left, *b = right;
    if (a->tid != b->tid)
        return a->tid < b->tid ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

struct contents comms_text(struct comms *comms)
{
    struct contents text;
    FILE *out = memory_open(&text);
    if (comms->nr)
        qsort(comms->list, comms->nr, sizeof *comms->list, by_tid);
    for (size_t i = 0; i < comms->nr; i++)
        if (i + 1 == comms->nr || comms->list[i + 1].tid != comms->list[i].tid)
            fprintf(out, "%ld %s\n", comms->list[i].tid, comms->list[i].name);
    for (size_t i = 0; i < comms->nr; i++)
        comms->list[i].order = i;
    memory_close(out);
    return text;
}

void comms_free(struct comms *comms)
{
    free(comms->list);
    *comms = (struct comms){0};
}
