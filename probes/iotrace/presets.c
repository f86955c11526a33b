#include "iotrace/iotrace.h"

/* Conditions for selecting an event. */
enum want {
    BLOCK,    /* always: requests and bios */
    TASKS,    /* always: threads of processes, and their OOM scores */
    CACHE,    /* with filesystems: pages that are dirtied or read into the cache */
    ASKED,    /* with filesystems, on demand: pages that are requested or leave the cache */
    DIRECT,   /* with filesystems: direct I/O, which has no page events */
    ENDED,    /* with filesystems without extent events: the end of submitting bios in a direct I/O */
    EXT4,     /* with ext4 mounted: mapping and freeing of blocks, inode lifetimes */
    UNLISTED, /* with ext4 mounted and no listing at the start: earlier extents */
    F2FS,     /* with F2FS mounted */
    ANDROID,  /* with filesystems: read and write calls with path, in kernels of Android 7 to 11 */
};

/* The field of an event with the device. */
enum subject {
    NO_DEVICE,
    DEV,     /* field dev */
    S_DEV,   /* field s_dev */
    CHANGED, /* field dev, but only if a handle changed blocks: most change none */
    BDI      /* field name, with the backing device as "MAJ:MIN" */
};

struct choice {
    enum want want;
    enum subject subject;
    const char *system;
    const char *names; /* separated by blanks */
};

static const struct choice choices[] = {
    {BLOCK, DEV, "block",
     "block_bio_queue block_bio_remap block_split block_rq_insert block_rq_issue block_rq_complete block_rq_requeue "
     "block_rq_merge"},
    {TASKS, NO_DEVICE, "sched", "sched_process_exec sched_process_exit"},
    {TASKS, NO_DEVICE, "task", "task_newtask task_rename"},
    {TASKS, NO_DEVICE, "oom", "oom_score_adj_update"},
    {CACHE, BDI, "writeback", "writeback_dirty_folio writeback_dirty_page"},
    {CACHE, S_DEV, "filemap", "mm_filemap_add_to_page_cache"},
    {ASKED, S_DEV, "filemap",
     "mm_filemap_get_pages mm_filemap_fault mm_filemap_map_pages mm_filemap_delete_from_page_cache"},
    {DIRECT, DEV, "iomap", "iomap_dio_rw_begin"},
    {ENDED, DEV, "iomap", "iomap_dio_complete iomap_dio_rw_queued"},
    {EXT4, DEV, "ext4",
     "ext4_es_insert_extent ext4_es_cache_extent ext4_free_blocks ext4_allocate_inode ext4_free_inode "
     "ext4_evict_inode ext4_unlink_enter ext4_write_begin ext4_da_write_begin ext4_direct_IO_enter "
     "ext4_invalidate_folio ext4_journalled_invalidate_folio ext4_invalidatepage ext4_journalled_invalidatepage "
     "ext4_sync_file_enter ext4_sync_file_exit"},
    {EXT4, DEV, "jbd2", "jbd2_start_commit jbd2_end_commit"},
    {EXT4, CHANGED, "jbd2", "jbd2_handle_stats"},
    {UNLISTED, DEV, "ext4", "ext4_es_lookup_extent_exit"},
    {F2FS, DEV, "f2fs",
     "f2fs_submit_page_write f2fs_submit_folio_write f2fs_submit_page_bio f2fs_submit_folio_bio f2fs_map_blocks "
     "f2fs_new_inode f2fs_lookup_end f2fs_unlink_enter f2fs_rename_start f2fs_evict_inode "
     "f2fs_write_begin f2fs_direct_IO_enter f2fs_vm_page_mkwrite f2fs_sync_file_enter f2fs_sync_file_exit"},
    {F2FS, NO_DEVICE, "f2fs", "f2fs_datawrite_start f2fs_dataread_start"},
    {ANDROID, NO_DEVICE, "android_fs", "android_fs_datawrite_start android_fs_dataread_start"},
};

const char *const preset_names[] = {"block", "block+fs", "block+fs+syscalls"};

bool traces_filesystem(const struct topology *topology, bool (*is_type)(const char *fs_type))
{
    bool any = false;
    for (size_t i = 0; i < topology->nr_mounts; i++) {
        if (!topology_traces(topology, topology->mounts[i].dev))
            continue;
        any = true;
        if (is_type(topology->mounts[i].fs_type))
            return true;
    }
    return !any;
}

bool is_ext(const char *fs_type)
{
    return strncmp(fs_type, "ext", 3) == 0 && strcmp(fs_type, "exfat") != 0;
}

static bool is_f2fs(const char *fs_type)
{
    return strcmp(fs_type, "f2fs") == 0;
}

bool is_without_extent_events(const char *fs_type)
{
    return !is_ext(fs_type) && !is_f2fs(fs_type);
}

static bool wanted(enum want want, enum preset preset, const struct needs *needs)
{
    switch (want) {
    case BLOCK:
    case TASKS:
        return true;
    case CACHE:
    case DIRECT:
    case ANDROID:
        return preset >= PRESET_FS;
    case ASKED:
        return preset >= PRESET_FS && needs->readahead;
    case ENDED:
        return preset >= PRESET_FS && traces_filesystem(needs->topology, is_without_extent_events);
    case EXT4:
        return preset >= PRESET_FS && traces_filesystem(needs->topology, is_ext);
    case UNLISTED:
        return preset >= PRESET_FS && traces_filesystem(needs->topology, is_ext) && !needs->listed;
    case F2FS:
        return preset >= PRESET_FS && traces_filesystem(needs->topology, is_f2fs);
    }
    return false;
}

static char *filter_each(const struct topology *topology, const char *field, bool quoted)
{
    char *filter = NULL;
    for (size_t i = 0; i < topology->nr_devices; i++) {
        kernel_dev dev = topology->devices[i].dev;
        if (!topology->devices[i].traced)
            continue;
        char *longer = quoted ? format("%s%s%s == \"%u:%u\"", filter ? filter : "", filter ? " || " : "", field,
                                       DEV_MAJOR(dev), DEV_MINOR(dev))
                              : format("%s%s%s == %u", filter ? filter : "", filter ? " || " : "", field, dev);
        free(filter);
        filter = longer;
    }
    return filter;
}

char *filter_devices(const struct topology *topology, const char *field)
{
    return filter_each(topology, field, false);
}

char *filter_others(void)
{
    return format("common_pid != %d", (int)getpid());
}

/* Combine both conditions in one filter; frees them. */
static char *narrowed(char *filter, char *condition)
{
    char *both = format("(%s) && %s", filter, condition);
    free(filter);
    free(condition);
    return both;
}

static char *filter_for(const struct choice *choice, const struct needs *needs)
{
    char *filter = NULL;
    if (choice->subject == DEV || choice->subject == CHANGED)
        filter = filter_each(needs->topology, "dev", false);
    else if (choice->subject == S_DEV)
        filter = filter_each(needs->topology, "s_dev", false);
    else if (choice->subject == BDI)
        filter = filter_each(needs->topology, "name", true);
    if (filter && choice->subject == CHANGED)
        filter = narrowed(filter, format("dirtied_blocks > 0"));
    if (filter && needs->skip_self && choice->want != BLOCK)
        filter = narrowed(filter, filter_others());
    return filter;
}

void selection_add(struct selection *selection, const char *system, const char *name, char *filter)
{
    selection->events = grow(selection->events, selection->nr_events + 1, sizeof *selection->events);
    selection->events[selection->nr_events++] = (struct event){format("%s", system), format("%s", name), filter};
}

void selection_miss(struct selection *selection, const char *system, const char *name)
{
    selection->absent = grow(selection->absent, selection->nr_absent + 1, sizeof *selection->absent);
    selection->absent[selection->nr_absent++] = format("%s/%s", system, name);
}

void selection_choose(struct selection *selection, int tracefs, const char *system, const char *name, char *filter)
{
    if (tracefs_has_event(tracefs, system, name)) {
        selection_add(selection, system, name, filter);
        return;
    }
    free(filter);
    selection_miss(selection, system, name);
}

static void choose(struct selection *selection, int tracefs, const struct choice *choice, const struct needs *needs)
{
    char *names = format("%s", choice->names);
    for (char *rest, *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        selection_choose(selection, tracefs, choice->system, name, filter_for(choice, needs));
    free(names);
}

static int by_name(const void *left, const void *right)
{
    const struct event *a = left, *b = right;
    int order = strcmp(a->system, b->system);
    return order ? order : strcmp(a->name, b->name);
}

bool event_has_extents(const struct event *event)
{
    return strncmp(event->name, "ext4_es_", 8) == 0 || strcmp(event->name, "f2fs_map_blocks") == 0 ||
           strcmp(event->name, "f2fs_iget") == 0 || strncmp(event->name, "f2fs_lookup_", 12) == 0;
}

void selection_sort(struct selection *selection)
{
    if (selection->nr_events)
        qsort(selection->events, selection->nr_events, sizeof *selection->events, by_name);
}

void selection_make(struct selection *selection, int tracefs, enum preset preset, const struct needs *needs)
{
    *selection = (struct selection){0};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (wanted(choices[i].want, preset, needs))
            choose(selection, tracefs, &choices[i], needs);
}

void selection_free(struct selection *selection)
{
    for (size_t i = 0; i < selection->nr_events; i++) {
        free(selection->events[i].system);
        free(selection->events[i].name);
        free(selection->events[i].filter);
    }
    for (size_t i = 0; i < selection->nr_absent; i++)
        free(selection->absent[i]);
    free(selection->events);
    free(selection->absent);
    *selection = (struct selection){0};
}
