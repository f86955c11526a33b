// A directory holds names (dentries), and a name leads to a file (inode). Renaming a directory thus moves all that is
// in it. A file that no recorded call created existed at the start, under the name by which it was first seen.
#include "calls/names.h"

#include "calls/flags.h"
#include "calls/left.h"
#include "calls/texts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LINKS = 40 }; // symbolic links on a path: path_resolution(7)

void names_free(struct names *names)
{
    map_free(&names->dentry_numbers);
    map_free(&names->inode_numbers);
    free(names->dentries);
    free(names->changes);
    free(names->scratch);
}

void names_begin(struct names *names)
{
    names->dev = storage_string(names->storage, names->strings, (const uint8_t *)"dev", 3);
    names->shm = storage_string(names->storage, names->strings, (const uint8_t *)"shm", 3);
    names->proc = storage_string(names->storage, names->strings, (const uint8_t *)"proc", 4);
    names->sys = storage_string(names->storage, names->strings, (const uint8_t *)"sys", 3);
    names->ashmem = storage_string(names->storage, names->strings, (const uint8_t *)"ashmem", 6);
    names->fd = storage_string(names->storage, names->strings, (const uint8_t *)"fd", 2);
    names->self = storage_string(names->storage, names->strings, (const uint8_t *)"self", 4);
    names->thread_self = storage_string(names->storage, names->strings, (const uint8_t *)"thread-self", 11);
    names->tree_version = 1;
}

// Returns what a name in a directory is (enum left). Everything below a directory without files, such as /proc, is not
// a file either. /dev/shm is memory.
static uint8_t left_of(const struct names *names, int32_t dir, uint32_t name)
{
    const struct inode *parent = &names->files->inodes[dir];

    if (dir == ROOT) {
        if (name == names->dev)
            return LEFT_DEVICE;
        return name == names->proc || name == names->sys ? LEFT_PROC : LEFT_NOT;
    }
    if (parent->left == LEFT_DEVICE && parent->dentry != NO_INDEX && names->dentries[parent->dentry].dir == ROOT) {
        if (name == names->shm)
            return LEFT_MEMORY;
        if (name == names->ashmem)
            return LEFT_ASHMEM;
    }
    return parent->left;
}

uint8_t names_left(const struct names *names, const struct location *location)
{
    if (location->inode != NO_INDEX)
        return names->files->inodes[location->inode].left;
    return location->dentry == NO_INDEX
               ? LEFT_NOT
               : left_of(names, names->dentries[location->dentry].dir, names->dentries[location->dentry].name);
}

// Checks whether a directory must be empty, because it is new or does not exist.
static bool is_empty(const struct names *names, int32_t dir)
{
    const struct inode *inode = &names->files->inodes[dir];

    return inode->origin == ORIGIN_MADE || inode->origin == ORIGIN_APPEARED ||
           (inode->origin == ORIGIN_UNKNOWN && inode->dentry != NO_INDEX &&
            names->dentries[inode->dentry].state == NAME_ABSENT);
}

static int32_t settle_absent(struct names *names, int32_t index)
{
    struct dentry *dentry = &names->dentries[index];

    if (dentry->state == NAME_UNKNOWN && is_empty(names, dentry->dir))
        dentry->state = NAME_ABSENT;
    return index;
}

static int32_t dentry_of(struct names *names, int32_t dir, uint32_t name)
{
    uint64_t *slot = storage_slot(names->storage, &names->dentry_numbers, (uint64_t)(uint32_t)dir, name);
    struct dentry *dentry;

    names->files->inodes[dir].is_walked = true;
    if (*slot)
        return settle_absent(names, (int32_t)(*slot - 1));
    *slot = names->nr_dentries + 1;
    dentry = PUSH(names, dentries);
    *dentry = (struct dentry){.dir = dir, .name = name, .inode = NO_INDEX, .path = NO_STRING, .changed_ns = INT64_MIN};
    return settle_absent(names, (int32_t)names->nr_dentries - 1);
}

// Returns the inode of a name. A name without one gets an inode of unknown origin.
static int32_t inode_of(struct names *names, int32_t dentry, uint8_t type)
{
    struct dentry *name = &names->dentries[dentry];
    struct inode *inode;

    if (name->inode == NO_INDEX) {
        name->inode = inode_new(names->files, type, ORIGIN_UNKNOWN);
        inode = &names->files->inodes[name->inode];
        inode->dentry = dentry;
        inode->first_dir = name->dir;
        inode->first_name = name->name;
        inode->left = left_of(names, name->dir, name->name);
        inode->nr_names = 1;
    }
    return name->inode = inode_find(names->files, name->inode);
}

static int32_t parent_of(struct names *names, int32_t dir)
{
    int32_t above;

    if (dir == ROOT)
        return ROOT;
    if (names->files->inodes[dir].dentry != NO_INDEX)
        return inode_find(names->files, names->dentries[names->files->inodes[dir].dentry].dir);
    if (names->files->inodes[dir].above == NO_INDEX) {
        above = inode_new(names->files, TYPE_DIRECTORY, ORIGIN_START);
        names->files->inodes[dir].above = above;
    }
    return names->files->inodes[dir].above;
}

struct walk {
    int32_t dir;
    struct location location;
    int links;
};

static bool walk_text(struct names *names, struct walk *walk, const uint8_t *text, size_t length, bool follow);

static bool walk_link(struct names *names, struct walk *walk, const struct inode *link, int32_t dir)
{
    size_t length;
    const uint8_t *target = strings_text(names->strings, link->target, &length);
    uint8_t copy[MOST_PATH_BYTES]; // adding a string may move the others

    if (++walk->links > MOST_LINKS)
        return false;
    memcpy(copy, target, length);
    walk->dir = dir;
    return walk_text(names, walk, copy, length, true);
}

static void walk_to(struct names *names, struct walk *walk, int32_t dir)
{
    walk->dir = dir;
    walk->location = (struct location){names->files->inodes[dir].dentry, dir};
}

static int32_t number_in(const uint8_t *text, size_t length)
{
    int32_t number = 0;

    if (!length || length > 9)
        return NO_INDEX;
    for (size_t n = 0; n < length; n++) {
        if (text[n] < '0' || text[n] > '9')
            return NO_INDEX;
        number = 10 * number + (text[n] - '0');
    }
    return number;
}

// Returns the process whose descriptors a directory shows: /proc/PID/fd, or /proc/self/fd and /dev/fd for the calling
// process.
static int32_t shown_process(const struct names *names, int32_t dir)
{
    int32_t own = process_of(names->open->threads, names->now.thread)->pid;
    const struct dentry *fd, *above;
    const uint8_t *name;
    size_t length;

    if (names->files->inodes[dir].dentry == NO_INDEX)
        return NO_INDEX;
    fd = &names->dentries[names->files->inodes[dir].dentry];
    if (fd->name != names->fd || names->files->inodes[fd->dir].dentry == NO_INDEX)
        return NO_INDEX;
    above = &names->dentries[names->files->inodes[fd->dir].dentry];
    if (above->dir == ROOT)
        return above->name == names->dev ? own : NO_INDEX;
    if (names->files->inodes[above->dir].left != LEFT_PROC)
        return NO_INDEX;
    name = strings_text(names->strings, above->name, &length);
    return above->name == names->self || above->name == names->thread_self ? own : number_in(name, length);
}

// Returns the file that such a name refers to, as an open descriptor; NO_INDEX for other names.
static int32_t open_file(struct names *names, int32_t dir, const uint8_t *text, size_t length)
{
    int32_t fd = names->files->inodes[dir].left ? number_in(text, length) : NO_INDEX, pid;

    if (fd == NO_INDEX)
        return NO_INDEX;
    pid = shown_process(names, dir);
    return pid == NO_INDEX ? NO_INDEX : descriptor_leads_to(names->open, names->now.thread, pid, fd);
}

static bool walk_name(struct names *names, struct walk *walk, const uint8_t *text, size_t length, bool is_last,
                      bool follow)
{
    int32_t dir = walk->dir, dentry, inode = !is_last || follow ? open_file(names, dir, text, length) : NO_INDEX;

    if (inode != NO_INDEX) {
        walk_to(names, walk, inode);
        return true;
    }
    dentry = dentry_of(names, dir, storage_string(names->storage, names->strings, text, length));
    inode = names->dentries[dentry].inode;
    if (inode != NO_INDEX)
        inode = inode_find(names->files, inode);
    if (inode != NO_INDEX && names->dentries[dentry].state != NAME_ABSENT &&
        names->files->inodes[inode].type == TYPE_SYMLINK && names->files->inodes[inode].target != NO_STRING &&
        (!is_last || follow))
        return walk_link(names, walk, &names->files->inodes[inode], dir);
    if (!is_last)
        inode = inode_of(names, dentry, TYPE_UNKNOWN);
    walk->location = (struct location){dentry, inode};
    walk->dir = inode;
    return true;
}

static bool walk_text(struct names *names, struct walk *walk, const uint8_t *text, size_t length, bool follow)
{
    const uint8_t *end = text + length;

    if (!length || memchr(text, 0, length))
        return false;
    walk_to(names, walk, *text == '/' ? ROOT : walk->dir);
    while (text < end) {
        const uint8_t *slash = memchr(text, '/', (size_t)(end - text));
        const uint8_t *rest = slash ? slash + 1 : end;
        size_t bytes = (size_t)((slash ? slash : end) - text);

        while (rest < end && *rest == '/')
            rest++;
        if (walk->dir == NO_INDEX) // a link led to a name without an inode
            walk->dir = walk->location.inode = inode_of(names, walk->location.dentry, TYPE_UNKNOWN);
        if (bytes == 2 && !memcmp(text, "..", 2))
            walk_to(names, walk, parent_of(names, walk->dir));
        else if (bytes && (bytes != 1 || *text != '.') &&
                 !walk_name(names, walk, text, bytes, rest == end, follow || slash))
            return false;
        text = rest;
    }
    return true;
}

bool names_walk(struct names *names, int32_t start, uint32_t text, bool follow, struct location *location)
{
    struct walk walk = {.dir = start};
    const uint8_t *at;
    size_t length;

    if (!text_of(names->in, text, &at, &length) || !walk_text(names, &walk, at, length, follow))
        return false;
    *location = walk.location;
    return true;
}

// Records a name that appeared or disappeared between recorded calls: they alone cannot have led to what a call found.
// Names of other things than files are ignored, because they come and go by themselves.
static void changed(struct names *names, int32_t dentry, int32_t inode, bool is_gone)
{
    struct change *change;
    uint32_t path;

    if (left_of(names, names->dentries[dentry].dir, names->dentries[dentry].name))
        return;
    names->conflicts++;
    path = names_path(names, dentry);
    if (path == NO_STRING)
        return;
    change = PUSH(names, changes);
    *change = (struct change){names->now.row, path, names->now.thread, inode, is_gone};
}

// Reverses the changes from `first` on: of nested directories the uppermost was found last.
static void turn_changes(struct names *names, size_t first)
{
    for (size_t last = names->nr_changes; first + 1 < last; first++) {
        struct change first_change = names->changes[first];

        names->changes[first] = names->changes[--last];
        names->changes[last] = first_change;
    }
}

// Marks the directories above an existing name as present.
static void confirm_above(struct names *names, int32_t dentry)
{
    size_t first = names->nr_changes;

    while (dentry != NO_INDEX) {
        int32_t dir = names->dentries[dentry].dir;
        struct inode *inode = &names->files->inodes[dir];

        inode->type = TYPE_DIRECTORY;
        if (inode->origin != ORIGIN_UNKNOWN &&
            (inode->dentry == NO_INDEX || names->dentries[inode->dentry].state == NAME_PRESENT))
            break;
        if (inode->origin == ORIGIN_UNKNOWN)
            inode->origin = ORIGIN_START;
        dentry = inode->dentry;
        if (dentry != NO_INDEX) {
            if (names->dentries[dentry].state == NAME_ABSENT) {
                inode->origin = ORIGIN_APPEARED;
                changed(names, dentry, dir, false);
            }
            names->dentries[dentry].state = NAME_PRESENT;
        }
    }
    turn_changes(names, first);
}

// Records a file at a name that was absent.
static void appear(struct names *names, int32_t index, uint8_t type)
{
    struct dentry *dentry = &names->dentries[index];
    int32_t inode;

    if (dentry->inode != NO_INDEX && names->files->inodes[dentry->inode].origin != ORIGIN_UNKNOWN)
        dentry->inode = NO_INDEX;
    inode = inode_of(names, index, type);
    names->files->inodes[inode].origin = ORIGIN_APPEARED;
    confirm_above(names, index);
    changed(names, index, inode, false);
}

void names_confirm(struct names *names, struct location *location, uint8_t type)
{
    struct dentry *dentry;
    struct inode *inode;

    if (location->dentry == NO_INDEX)
        return;
    if (names->dentries[location->dentry].state == NAME_ABSENT)
        appear(names, location->dentry, type);
    location->inode = inode_of(names, location->dentry, type);
    dentry = &names->dentries[location->dentry];
    dentry->state = NAME_PRESENT;
    inode = &names->files->inodes[location->inode];
    if (inode->origin == ORIGIN_UNKNOWN)
        inode->origin = ORIGIN_START;
    if (type != TYPE_UNKNOWN && inode->type == TYPE_UNKNOWN)
        inode->type = type;
    confirm_above(names, location->dentry);
}

static void take_name(struct names *names, int32_t dentry)
{
    int32_t index = names->dentries[dentry].inode;
    struct inode *inode;

    if (index == NO_INDEX || names->dentries[dentry].state == NAME_ABSENT)
        return;
    index = inode_find(names->files, index);
    inode = &names->files->inodes[index];
    if (inode->dentry == dentry)
        inode->dentry = NO_INDEX;
    if (inode->nr_names && !--inode->nr_names && inode->ino != NO_INT64 &&
        map_value(&names->inode_numbers, inode->dev, (uint64_t)inode->ino) == (uint64_t)index + 1)
        map_remove(&names->inode_numbers, inode->dev, (uint64_t)inode->ino);
}

void names_remove(struct names *names, const struct location *location)
{
    if (location->dentry == NO_INDEX)
        return;
    take_name(names, location->dentry);
    names->dentries[location->dentry].inode = NO_INDEX;
    names->dentries[location->dentry].state = NAME_ABSENT;
    names->tree_version++;
}

// Records that the file is gone. For a directory in use only the conflict is counted: what became of its entries is
// unknown.
static void disappear(struct names *names, int32_t dentry)
{
    struct location location = {dentry, names->dentries[dentry].inode};

    if (location.inode != NO_INDEX && names->files->inodes[inode_find(names->files, location.inode)].is_walked) {
        names->conflicts++;
        return;
    }
    changed(names, dentry, location.inode, true);
    names_remove(names, &location);
}

void names_appear(struct names *names, struct location *location)
{
    if (location->dentry == NO_INDEX || names->dentries[location->dentry].state == NAME_PRESENT)
        return;
    names->dentries[location->dentry].state = NAME_ABSENT;
    names_confirm(names, location, TYPE_FILE);
}

void names_absent(struct names *names, const struct location *location)
{
    struct dentry *dentry;
    const struct inode *dir;

    if (location->dentry == NO_INDEX)
        return;
    dentry = &names->dentries[location->dentry];
    dir = &names->files->inodes[dentry->dir];
    if (dentry->state == NAME_PRESENT && dentry->changed_ns <= names->in->ts_ns[names->now.row])
        disappear(names, location->dentry);
    else if (dentry->state != NAME_PRESENT && dir->origin != ORIGIN_UNKNOWN)
        dentry->state = NAME_ABSENT;
}

static void give_name(struct names *names, int32_t dentry, int32_t index)
{
    struct inode *inode = &names->files->inodes[index];

    names->dentries[dentry].inode = index;
    names->dentries[dentry].state = NAME_PRESENT;
    names->dentries[dentry].changed_ns = names->now.end_ns;
    inode->dentry = dentry;
    inode->nr_names++;
    confirm_above(names, dentry);
}

void names_make(struct names *names, struct location *location, uint8_t type, uint8_t origin)
{
    struct inode *inode;

    if (location->dentry == NO_INDEX)
        return;
    if (names->dentries[location->dentry].state == NAME_PRESENT)
        disappear(names, location->dentry);
    take_name(names, location->dentry);
    location->inode = inode_new(names->files, type, origin);
    inode = &names->files->inodes[location->inode];
    inode->left = left_of(names, names->dentries[location->dentry].dir, names->dentries[location->dentry].name);
    inode->first_dir = names->dentries[location->dentry].dir;
    inode->first_name = names->dentries[location->dentry].name;
    give_name(names, location->dentry, location->inode);
}

// Checks whether the directory is above the name. A name too deep for any path counts as below every directory, because
// walking up from it for each call takes too long.
static bool is_above(struct names *names, int32_t inode, int32_t dentry)
{
    for (int depth = 0; dentry != NO_INDEX; depth++) {
        int32_t dir = inode_find(names->files, names->dentries[dentry].dir);

        if (dir == inode || depth > MOST_PATH_BYTES / 2)
            return true;
        dentry = names->files->inodes[dir].dentry;
    }
    return false;
}

// Renames a file. A recording may move a directory into itself, although no kernel does; this counts as a conflict.
void names_rename(struct names *names, const struct location *from, const struct location *to, bool exchange)
{
    if (from->dentry == NO_INDEX || to->dentry == NO_INDEX || from->dentry == to->dentry || from->inode == NO_INDEX)
        return;
    if (is_above(names, from->inode, to->dentry) ||
        (to->inode != NO_INDEX && is_above(names, to->inode, from->dentry))) {
        names->conflicts++;
        return;
    }
    if (!exchange && to->inode == from->inode) // two names of one file remain
        return;
    take_name(names, to->dentry);
    take_name(names, from->dentry);
    give_name(names, to->dentry, from->inode);
    // A directory with two names in the recording can be above its own new name only now.
    if (exchange && to->inode != NO_INDEX && !is_above(names, to->inode, from->dentry)) {
        give_name(names, from->dentry, to->inode);
    } else {
        names->dentries[from->dentry].inode = NO_INDEX;
        names->dentries[from->dentry].state = NAME_ABSENT;
    }
    names->tree_version++;
}

void names_link(struct names *names, int32_t inode, const struct location *to)
{
    if (to->dentry == NO_INDEX)
        return;
    if (is_above(names, inode, to->dentry)) {
        names->conflicts++;
        return;
    }
    take_name(names, to->dentry);
    give_name(names, to->dentry, inode);
}

static void join(struct names *names, int32_t into, int32_t other)
{
    struct inode *survivor = &names->files->inodes[into], *joined = &names->files->inodes[other];

    joined->same = into;
    survivor->nr_names += joined->nr_names;
    if (joined->start_least > survivor->start_least)
        survivor->start_least = joined->start_least;
    if (survivor->start_size == NO_INT64) {
        survivor->start_size = joined->start_size;
        survivor->size_from = joined->size_from;
    }
    survivor->is_cut |= joined->is_cut;
}

int32_t names_identify(struct names *names, struct location *location, int32_t index, uint32_t dev, int64_t ino)
{
    struct inode *inode;
    uint64_t *slot;
    int32_t other;

    index = inode_find(names->files, index);
    if (index == NO_INDEX || dev == NO_UINT32 || ino == NO_INT64)
        return index;
    inode = &names->files->inodes[index];
    if (inode->ino == ino && inode->dev == dev)
        return index;
    if (inode->ino != NO_INT64) { // another file is there now, and no recorded call put it there
        names->conflicts++;
        if (!location || location->dentry == NO_INDEX)
            return index;
        names_make(names, location, inode->type, ORIGIN_START);
        index = location->inode;
        inode = &names->files->inodes[index];
    }
    slot = storage_slot(names->storage, &names->inode_numbers, dev, (uint64_t)ino);
    other = *slot ? inode_find(names->files, (int32_t)(*slot - 1)) : NO_INDEX;
    if (other != NO_INDEX && other != index && inode->type != TYPE_DIRECTORY &&
        names->files->inodes[other].type != TYPE_DIRECTORY && names->files->inodes[other].nr_names &&
        inode->origin == ORIGIN_START && names->files->inodes[other].origin == ORIGIN_START) {
        join(names, other, index);
        return other;
    }
    *slot = (uint64_t)index + 1;
    inode->dev = dev;
    inode->ino = ino;
    return index;
}

static void reserve(struct names *names, size_t bytes)
{
    size_t capacity = names->scratch_capacity ? names->scratch_capacity : 256;
    uint8_t *grown;

    if (bytes <= names->scratch_capacity)
        return;
    while (capacity < bytes)
        capacity *= 2;
    grown = storage_allocate(names->storage, capacity);
    if (names->scratch) // the text is at the end of the buffer
        memcpy(grown + capacity - names->scratch_capacity, names->scratch, names->scratch_capacity);
    free(names->scratch);
    names->scratch = grown;
    names->scratch_capacity = capacity;
}

// Prepends a name to the `used` bytes at the end of the scratch buffer, followed by a slash unless it is the last name.
static size_t prepend_name(struct names *names, size_t used, uint32_t name)
{
    size_t length;
    const uint8_t *text = strings_text(names->strings, name, &length);

    reserve(names, used + length + 1);
    if (used)
        names->scratch[names->scratch_capacity - ++used] = '/';
    used += length;
    memcpy(names->scratch + names->scratch_capacity - used, text, length);
    return used;
}

static uint32_t take_scratch(struct names *names, size_t used)
{
    return used > MOST_PATH_BYTES
               ? NO_STRING
               : storage_string(names->storage, names->strings, names->scratch + names->scratch_capacity - used, used);
}

uint32_t names_unnamed_path(struct names *names, int32_t inode)
{
    char name[32] = ".unnamed/";
    char digits[12];
    size_t length = 9, count = 0;
    uint32_t number;

    if (names->files->inodes[inode].unnamed == NO_INDEX)
        names->files->inodes[inode].unnamed = (int32_t)names->nr_unnamed++;
    number = (uint32_t)names->files->inodes[inode].unnamed;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count)
        name[length++] = digits[--count];
    return storage_string(names->storage, names->strings, (const uint8_t *)name, length);
}

static uint32_t dot(struct names *names)
{
    return storage_string(names->storage, names->strings, (const uint8_t *)".", 1);
}

// Returns the current path of a name; that of the root for NO_INDEX. It stops at the first name beyond the longest
// path: for directories nested in each other the total length grows with the square of their number.
uint32_t names_path(struct names *names, int32_t dentry)
{
    size_t used = 0;
    int32_t at = dentry, dir;

    if (dentry == NO_INDEX)
        return dot(names);
    if (names->dentries[dentry].path_version == names->tree_version)
        return names->dentries[dentry].path;
    while (used <= MOST_PATH_BYTES) {
        used = prepend_name(names, used, names->dentries[at].name);
        dir = inode_find(names->files, names->dentries[at].dir);
        if (dir == ROOT)
            break;
        at = names->files->inodes[dir].dentry;
        if (at == NO_INDEX) {
            used = prepend_name(names, used, names_unnamed_path(names, dir));
            break;
        }
    }
    names->dentries[dentry].path = take_scratch(names, used);
    names->dentries[dentry].path_version = names->tree_version;
    return names->dentries[dentry].path;
}

uint32_t names_first_path(struct names *names, int32_t inode)
{
    size_t used = 0;

    while (inode != ROOT && used <= MOST_PATH_BYTES) {
        if (names->files->inodes[inode].origin != ORIGIN_START)
            return NO_STRING;
        if (names->files->inodes[inode].first_dir == NO_INDEX) {
            used = prepend_name(names, used, names_unnamed_path(names, inode));
            break;
        }
        used = prepend_name(names, used, names->files->inodes[inode].first_name);
        inode = names->files->inodes[inode].first_dir;
    }
    return used ? take_scratch(names, used) : dot(names);
}
