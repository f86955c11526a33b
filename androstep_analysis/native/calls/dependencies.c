// Finds the dependencies between operations of different threads in one pass. Each operation waits for the last
// conflicting operations of other threads, newest first. Waiting for one of them implies waiting for all that its
// thread had waited for, so that most others need no row of their own.
#include "calls/dependencies.h"

#include "calls/accesses.h"
#include "calls/path_tree.h"
#include "core/array.h"

#include <string.h>

// Kinds of resources, each with its key.
enum {
    RESOURCE_DESCRIPTOR,    // descriptor
    RESOURCE_POSITION,      // the original of duplicated descriptors
    RESOURCE_CREATION,      // file
    RESOURCE_FILE,          // file
    RESOURCE_MAPPING,       // file
    RESOURCE_NAME,          // node of the path, by operations whose results do not show their order
    RESOURCE_REPORTED_NAME, // node of the path, by the other operations
    RESOURCE_NAME_ORDER,    // the same, in the order that the results show
    RESOURCE_ENTRIES,       // node of the directory
    RESOURCE_ALL,           // 0: everything that can be written back
};

enum { NR_LESSONS = 64, NR_SLOTS = 2048, LEAST_SLOTS = 64 };

// Limits for resources that very many threads use at the same time, and then very many others. Each of the latter would
// wait for each of the former. Beyond this many dependencies in total, and for one operation, one of the later
// operations waits for all and the others wait for it.
enum { MANY_ORDERS = 1 << 20, FEW_ORDERS = 16 };

// For all threads together, if they are many: 32 MiB.
#define ALL_SLOTS ((size_t)NR_SLOTS * NR_SLOTS)

// A thread follows an operation of another thread.
struct lesson {
    int64_t since; // its own operation that waited for it
    int64_t operation;
};

// The operations that a thread follows. Some of them may be forgotten, because lessons are limited and threads may
// share a slot of `newest`. This only costs redundant rows.
struct knowledge {
    int64_t *newest; // by other thread, modulo slots: the newest of its operations that this thread follows, plus 1
    struct lesson last[NR_LESSONS];
    size_t nr_lessons;
};

struct row {
    int64_t operation;
    int64_t after;
};

struct dependencies {
    struct row *rows;
    size_t count, capacity;
};

struct finder {
    const struct operations *operations;
    struct accesses accesses;
    struct path_tree tree;
    uint32_t *nodes;             // of each path
    struct map originals;        // by descriptor: the one that it duplicates, plus 1
    struct map directories;      // by descriptor: node of the path that it was opened by, plus 1
    struct knowledge *knowledge; // by thread
    size_t slots;                // length of `newest`
    int64_t *earlier;            // operations that the current one must wait for
    size_t nr_earlier, earlier_capacity;
    int64_t operation; // the current one
    struct dependencies *dependencies;
};

// --- what a thread is behind ---------------------------------------------------------------------------------------

static uint32_t thread_of(const struct finder *finder, int64_t operation)
{
    return finder->operations->thread[operation];
}

static bool follows(const struct finder *finder, uint32_t thread, int64_t operation)
{
    const int64_t *newest = finder->knowledge[thread].newest;
    uint32_t other = thread_of(finder, operation);
    int64_t newest_of_other = newest ? newest[other % finder->slots] : 0;

    return newest_of_other > operation && thread_of(finder, newest_of_other - 1) == other;
}

static bool add_lesson(struct finder *finder, uint32_t thread, int64_t operation)
{
    struct knowledge *knowledge = finder->knowledge + thread;

    if (follows(finder, thread, operation))
        return true;
    if (!knowledge->newest)
        knowledge->newest = calloc(finder->slots, sizeof(*knowledge->newest));
    if (!knowledge->newest)
        return false;
    knowledge->newest[thread_of(finder, operation) % finder->slots] = operation + 1;
    knowledge->last[knowledge->nr_lessons++ % NR_LESSONS] = (struct lesson){finder->operation, operation};
    return true;
}

// Records that the thread of the current operation follows `earlier`, and all that the thread of `earlier` followed
// then.
static bool add_lessons_of(struct finder *finder, int64_t earlier)
{
    uint32_t thread = thread_of(finder, finder->operation);
    const struct knowledge *knowledge = finder->knowledge + thread_of(finder, earlier);
    size_t count = knowledge->nr_lessons < NR_LESSONS ? knowledge->nr_lessons : NR_LESSONS;

    for (size_t i = 0; i < count; i++) {
        const struct lesson *lesson = knowledge->last + i;

        if (lesson->since <= earlier && thread_of(finder, lesson->operation) != thread &&
            !add_lesson(finder, thread, lesson->operation))
            return false;
    }
    return add_lesson(finder, thread, earlier);
}

// --- what an operation waits for -----------------------------------------------------------------------------------

static bool wait_for(void *context, int64_t earlier)
{
    struct finder *finder = context;

    if (follows(finder, thread_of(finder, finder->operation), earlier))
        return true;
    if (!array_reserve(&finder->earlier, finder->nr_earlier, &finder->earlier_capacity, sizeof(*finder->earlier)))
        return false;
    finder->earlier[finder->nr_earlier++] = earlier;
    return true;
}

static bool append_row(struct dependencies *dependencies, int64_t operation, int64_t after)
{
    if (!array_reserve(&dependencies->rows, dependencies->count, &dependencies->capacity, sizeof(*dependencies->rows)))
        return false;
    dependencies->rows[dependencies->count++] = (struct row){operation, after};
    return true;
}

static int newest_first(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return (*a < *b) - (*a > *b);
}

static bool append_dependencies(struct finder *finder)
{
    uint32_t thread = thread_of(finder, finder->operation);

    if (finder->nr_earlier > 1)
        qsort(finder->earlier, finder->nr_earlier, sizeof(*finder->earlier), newest_first);
    for (size_t i = 0; i < finder->nr_earlier; i++) {
        int64_t earlier = finder->earlier[i];

        if (!follows(finder, thread, earlier) &&
            !(append_row(finder->dependencies, finder->operation, earlier) && add_lessons_of(finder, earlier)))
            return false;
    }
    finder->nr_earlier = 0;
    return true;
}

// --- what an operation uses ----------------------------------------------------------------------------------------

static int64_t newest_exclusive(const struct finder *finder, uint32_t one, uint32_t other)
{
    int64_t of_one = accesses_exclusive(&finder->accesses, one);
    int64_t of_other = accesses_exclusive(&finder->accesses, other);

    return of_one > of_other ? of_one : of_other;
}

// Collects the operations that the current one must wait for on the resource (0: none).
static bool see(struct finder *finder, uint32_t resource, enum access access, int64_t exclusive)
{
    return !resource ||
           accesses_see(&finder->accesses, resource, access, finder->operation, exclusive, wait_for, finder);
}

// Checks whether the operation would wait for so many others that later operations should wait for it instead.
static bool waits_for_many(const struct finder *finder, size_t nr_before)
{
    return finder->nr_earlier - nr_before > FEW_ORDERS &&
           finder->dependencies->count > MANY_ORDERS + FEW_ORDERS * (size_t)finder->operation;
}

static bool use(struct finder *finder, uint64_t kind, int64_t key, enum access access)
{
    enum resource_order order = kind == RESOURCE_DESCRIPTOR ? BY_NUMBER : BY_TIME;
    uint32_t resource = accesses_resource(&finder->accesses, kind, (uint64_t)key, order);
    int64_t exclusive = accesses_exclusive(&finder->accesses, resource);
    size_t nr_before = finder->nr_earlier;

    if (!resource || !see(finder, resource, access, exclusive))
        return false;
    if (waits_for_many(finder, nr_before))
        return see(finder, resource, ACCESS_EXCLUSIVE, exclusive) &&
               accesses_gather(&finder->accesses, resource, finder->operation);
    return accesses_note(&finder->accesses, resource, access, finder->operation);
}

// Waits for all changes so far. No operation waits for a sync, unless it waits for so many that others wait for it
// instead.
static bool sync_all(struct finder *finder)
{
    uint32_t all = accesses_resource(&finder->accesses, RESOURCE_ALL, 0, BY_TIME);
    size_t nr_before = finder->nr_earlier;

    if (!all || !see(finder, all, ACCESS_SHARED, accesses_exclusive(&finder->accesses, all)))
        return false;
    return !waits_for_many(finder, nr_before) || accesses_gather(&finder->accesses, all, finder->operation);
}

static bool note_change(struct finder *finder)
{
    uint32_t all = accesses_resource(&finder->accesses, RESOURCE_ALL, 0, BY_TIME);

    return all && accesses_note(&finder->accesses, all, ACCESS_CHANGE, finder->operation);
}

// Uses a name by an operation whose result shows the order. Such operations are ordered by number among each other, and
// by time with all others.
static bool use_reported_name(struct finder *finder, uint32_t node, enum access access)
{
    struct accesses *accesses = &finder->accesses;
    uint32_t others = accesses_known_resource(accesses, RESOURCE_NAME, node);
    uint32_t own = accesses_resource(accesses, RESOURCE_REPORTED_NAME, node, BY_TIME_REPORTED);
    uint32_t order = accesses_resource(accesses, RESOURCE_NAME_ORDER, node, BY_NUMBER);
    int64_t exclusive = newest_exclusive(finder, own, others);
    size_t nr_before = finder->nr_earlier;

    if (!own || !order || !see(finder, others, access, exclusive) || !see(finder, order, access, exclusive))
        return false;
    if (waits_for_many(finder, nr_before))
        return see(finder, others, ACCESS_EXCLUSIVE, exclusive) && see(finder, order, ACCESS_EXCLUSIVE, exclusive) &&
               accesses_gather(accesses, order, finder->operation) && accesses_gather(accesses, own, finder->operation);
    return accesses_note(accesses, order, access, finder->operation) &&
           accesses_note(accesses, own, access, finder->operation);
}

static bool use_other_name(struct finder *finder, uint32_t node, enum access access)
{
    struct accesses *accesses = &finder->accesses;
    uint32_t reported = accesses_known_resource(accesses, RESOURCE_REPORTED_NAME, node);
    uint32_t own = accesses_resource(accesses, RESOURCE_NAME, node, BY_TIME);
    int64_t exclusive = newest_exclusive(finder, own, reported);
    size_t nr_before = finder->nr_earlier;

    if (!own || !see(finder, own, access, exclusive) || !see(finder, reported, access, exclusive))
        return false;
    if (waits_for_many(finder, nr_before))
        return see(finder, own, ACCESS_EXCLUSIVE, exclusive) && see(finder, reported, ACCESS_EXCLUSIVE, exclusive) &&
               accesses_gather(accesses, own, finder->operation);
    return accesses_note(accesses, own, access, finder->operation);
}

static uint64_t original(const struct finder *finder, int32_t descriptor)
{
    uint64_t value = map_value(&finder->originals, 0, (uint32_t)descriptor);

    return value ? value - 1 : (uint32_t)descriptor;
}

static bool set(struct map *map, int32_t descriptor, uint64_t value)
{
    uint64_t *value_slot = map_add(map, 0, (uint32_t)descriptor);

    if (value_slot)
        *value_slot = value + 1;
    return value_slot;
}

static bool duplicate(struct finder *finder, int32_t descriptor, int32_t made)
{
    uint64_t directory = map_value(&finder->directories, 0, (uint32_t)descriptor);

    return use(finder, RESOURCE_DESCRIPTOR, made, ACCESS_EXCLUSIVE) &&
           set(&finder->originals, made, original(finder, descriptor)) &&
           (!directory || set(&finder->directories, made, directory - 1));
}

static bool list(struct finder *finder, int32_t descriptor)
{
    uint64_t directory = map_value(&finder->directories, 0, (uint32_t)descriptor);

    return !directory || use(finder, RESOURCE_ENTRIES, (int64_t)directory - 1, ACCESS_SHARED);
}

static bool use_descriptor(struct finder *finder, uint32_t does, int32_t descriptor)
{
    enum access access = does & (DOES_MAKE | DOES_CLOSE) ? ACCESS_EXCLUSIVE : ACCESS_SHARED;

    return use(finder, RESOURCE_DESCRIPTOR, descriptor, access) &&
           (!(does & DOES_SEEK) ||
            use(finder, RESOURCE_POSITION, (int64_t)original(finder, descriptor), ACCESS_EXCLUSIVE)) &&
           (!(does & DOES_LIST) || list(finder, descriptor));
}

static bool use_descriptors(struct finder *finder, uint32_t does)
{
    int32_t descriptor = finder->operations->descriptor[finder->operation];
    int32_t descriptor2 = finder->operations->descriptor2[finder->operation];

    if (descriptor >= 0 && !use_descriptor(finder, does, descriptor))
        return false;
    if (descriptor2 < 0)
        return true;
    if (does & DOES_DUPLICATE)
        return descriptor < 0 || duplicate(finder, descriptor, descriptor2);
    return use(finder, RESOURCE_DESCRIPTOR, descriptor2, ACCESS_SHARED) &&
           (!(does & DOES_SEEK2) ||
            use(finder, RESOURCE_POSITION, (int64_t)original(finder, descriptor2), ACCESS_EXCLUSIVE));
}

// Orders the uses of a file after its creation. If the first operation on a file created it, all others follow it,
// whatever the times: the file that they found is the one it created.
static bool follow_birth(struct finder *finder, uint32_t does, int32_t file)
{
    size_t nr_before = finder->accesses.nr_resources;
    uint32_t creation = accesses_resource(&finder->accesses, RESOURCE_CREATION, (uint64_t)file, BY_NUMBER);

    if (!creation)
        return false;
    if (finder->accesses.nr_resources == nr_before)
        return see(finder, creation, ACCESS_SHARED, NO_OPERATION);
    return !(does & DOES_CHANGE_NAME) ||
           accesses_note(&finder->accesses, creation, ACCESS_EXCLUSIVE, finder->operation);
}

static bool use_files(struct finder *finder, uint32_t does)
{
    int32_t file = finder->operations->file[finder->operation];
    int32_t file2 = finder->operations->file2[finder->operation];

    if (file >= 0 && !follow_birth(finder, does, file))
        return false;
    if (file >= 0 && does & (DOES_SEE | DOES_CHANGE) &&
        !use(finder, RESOURCE_FILE, file, does & DOES_CHANGE ? ACCESS_EXCLUSIVE : ACCESS_SHARED))
        return false;
    if (file >= 0 && does & (DOES_MAP | DOES_ACCESS_MAP) &&
        !use(finder, RESOURCE_MAPPING, file, does & DOES_MAP ? ACCESS_EXCLUSIVE : ACCESS_SHARED))
        return false;
    return file2 < 0 || !(does & DOES_CHANGE2) || use(finder, RESOURCE_FILE, file2, ACCESS_EXCLUSIVE);
}

// Uses the names on a path. The names of the directories on it must not change during the lookup. The root has no name.
static bool use_name(struct finder *finder, uint32_t does, uint32_t node, enum access access)
{
    if (access == ACCESS_EXCLUSIVE && node != ROOT_NODE &&
        !use(finder, RESOURCE_ENTRIES, finder->tree.parents[node], ACCESS_CHANGE))
        return false;
    for (; node != ROOT_NODE; node = finder->tree.parents[node], access = ACCESS_SHARED)
        if (!(does & DOES_TELL ? use_reported_name : use_other_name)(finder, node, access))
            return false;
    return true;
}

static bool use_names(struct finder *finder, uint32_t does)
{
    int32_t path = finder->operations->path[finder->operation];
    int32_t path2 = finder->operations->path2[finder->operation];
    int32_t descriptor = finder->operations->descriptor[finder->operation];

    if (path >= 0 && does & (DOES_LOOK_UP | DOES_CHANGE_NAME) &&
        !use_name(finder, does, finder->nodes[path], does & DOES_CHANGE_NAME ? ACCESS_EXCLUSIVE : ACCESS_SHARED))
        return false;
    if (path >= 0 && descriptor >= 0 && does & DOES_MAKE && !set(&finder->directories, descriptor, finder->nodes[path]))
        return false;
    if (path >= 0 && does & DOES_LIST_PATH && !use(finder, RESOURCE_ENTRIES, finder->nodes[path], ACCESS_SHARED))
        return false;
    if (path2 >= 0 && does & (DOES_LOOK_UP2 | DOES_CHANGE_NAME2) &&
        !use_name(finder, does, finder->nodes[path2], does & DOES_CHANGE_NAME2 ? ACCESS_EXCLUSIVE : ACCESS_SHARED))
        return false;
    return path2 < 0 || !(does & DOES_LIST_PATH2) || use(finder, RESOURCE_ENTRIES, finder->nodes[path2], ACCESS_SHARED);
}

static bool take(struct finder *finder, int64_t operation)
{
    uint32_t does = finder->operations->does[operation];

    finder->operation = operation;
    if (!accesses_begin(&finder->accesses, operation))
        return false;
    if (!use_descriptors(finder, does) || !use_files(finder, does) || !use_names(finder, does))
        return false;
    if (does & DOES_SYNC && !sync_all(finder))
        return false;
    if (does & (DOES_CHANGE | DOES_CHANGE2 | DOES_CHANGE_NAME | DOES_CHANGE_NAME2) && !note_change(finder))
        return false;
    return append_dependencies(finder);
}

// --- all operations ------------------------------------------------------------------------------------------------

static bool find_nodes(struct finder *finder)
{
    const struct operations *operations = finder->operations;

    for (size_t path = 0; path < operations->nr_paths; path++) {
        const uint8_t *text = operations->texts + operations->offsets[path];
        size_t length = (size_t)(operations->offsets[path + 1] - operations->offsets[path]);

        if (!path_tree_add(&finder->tree, text, length, finder->nodes + path))
            return false;
    }
    return true;
}

static size_t nr_slots(size_t nr_threads)
{
    size_t slots = nr_threads > NR_SLOTS ? ALL_SLOTS / nr_threads : nr_threads;

    return nr_threads > NR_SLOTS && slots < LEAST_SLOTS ? LEAST_SLOTS : slots;
}

static bool find(struct finder *finder)
{
    const struct operations *operations = finder->operations;

    finder->accesses.course = (struct course){operations->begin_ns, operations->end_ns, operations->thread};
    finder->nodes = calloc(operations->nr_paths + 1, sizeof(*finder->nodes));
    finder->knowledge = calloc(operations->nr_threads + 1, sizeof(*finder->knowledge));
    finder->slots = nr_slots(operations->nr_threads);
    if (!finder->nodes || !finder->knowledge || !path_tree_make(&finder->tree) || !find_nodes(finder))
        return false;
    for (size_t row = 0; row < operations->rows; row++)
        if (!take(finder, (int64_t)row))
            return false;
    return true;
}

static void finder_free(struct finder *finder)
{
    accesses_free(&finder->accesses);
    path_tree_free(&finder->tree);
    free(finder->nodes);
    map_free(&finder->originals);
    map_free(&finder->directories);
    for (size_t thread = 0; finder->knowledge && thread < finder->operations->nr_threads; thread++)
        free(finder->knowledge[thread].newest);
    free(finder->knowledge);
    free(finder->earlier);
}

struct dependencies *dependencies_new(const struct operations *operations)
{
    struct dependencies *dependencies = calloc(1, sizeof(*dependencies));
    struct finder finder = {.operations = operations, .dependencies = dependencies};
    bool is_complete = dependencies && find(&finder);

    finder_free(&finder);
    if (is_complete)
        return dependencies;
    dependencies_free(dependencies);
    return NULL;
}

void dependencies_free(struct dependencies *dependencies)
{
    if (dependencies)
        free(dependencies->rows);
    free(dependencies);
}

size_t dependencies_count(const struct dependencies *dependencies)
{
    return dependencies->count;
}

void dependencies_copy(const struct dependencies *dependencies, int64_t *operation, int64_t *after)
{
    for (size_t row = 0; row < dependencies->count; row++) {
        operation[row] = dependencies->rows[row].operation;
        after[row] = dependencies->rows[row].after;
    }
}
