// The tree of names: which file each path leads to, through creation, renaming, links and removal.
//
// A directory holds names (dentries), and a name leads to a file (inode), so that renaming a directory moves all that
// is in it. What nobody has made was there at the start, at the first place where it was seen.
#include "calls/calls.h"

#include <string.h>

enum { MOST_LINKS = 40 }; // that a path may lead through: path_resolution(7)

bool text_of(const struct calls *calls, uint32_t text, const uint8_t **at, size_t *length)
{
    const struct calls_input *in = calls->in;

    if (text == NO_STRING || text >= in->nr_texts)
        return false;
    *at = in->text + in->text_starts[text];
    *length = (size_t)(in->text_starts[text + 1] - in->text_starts[text]);
    return true;
}

// Whether a call can be given the text as a path, or as what a symbolic link says.
bool text_is_path(const uint8_t *text, size_t length)
{
    return length && length <= MOST_PATH_BYTES && !memchr(text, 0, length);
}

static int32_t inode_new(struct calls *calls, uint8_t type, uint8_t origin)
{
    int32_t number = (int32_t)calls->nr_inodes;
    struct inode *inode = PUSH(calls, inodes);

    *inode = (struct inode){
        .same = number,
        .dentry = NOBODY,
        .first_dir = NOBODY,
        .above = NOBODY,
        .target = NO_STRING,
        .mode = NO_INT32,
        .dev = NO_UINT32,
        .ino = NO_INT64,
        .size = origin == ORIGIN_MADE ? 0 : NO_INT64,
        .start_size = NO_INT64,
        .number = NOBODY,
        .unnamed = NOBODY,
        .origin = origin,
        .type = type,
        .size_from = SIZE_FROM_NOTHING,
    };
    return number;
}

void names_begin(struct calls *calls)
{
    inode_new(calls, TYPE_DIRECTORY, ORIGIN_START);
    calls->dev = calls_string(calls, (const uint8_t *)"dev", 3);
    calls->shm = calls_string(calls, (const uint8_t *)"shm", 3);
    calls->proc = calls_string(calls, (const uint8_t *)"proc", 4);
    calls->sys = calls_string(calls, (const uint8_t *)"sys", 3);
    calls->ashmem = calls_string(calls, (const uint8_t *)"ashmem", 6);
    calls->fd = calls_string(calls, (const uint8_t *)"fd", 2);
    calls->self = calls_string(calls, (const uint8_t *)"self", 4);
    calls->thread_self = calls_string(calls, (const uint8_t *)"thread-self", 11);
    calls->tree_version = 1;
}

// The inode itself: several may turn out to be one.
int32_t names_find(struct calls *calls, int32_t inode)
{
    while (inode != NOBODY && calls->inodes[inode].same != inode) {
        calls->inodes[inode].same = calls->inodes[calls->inodes[inode].same].same;
        inode = calls->inodes[inode].same;
    }
    return inode;
}

int32_t names_unnamed(struct calls *calls, uint8_t type, uint8_t origin)
{
    return inode_new(calls, type, origin);
}

// What is below a place that holds no files is no file either. /dev/shm is memory.
static uint8_t left_of(const struct calls *calls, int32_t dir, uint32_t name)
{
    const struct inode *parent = &calls->inodes[dir];

    if (dir == ROOT) {
        if (name == calls->dev)
            return LEFT_DEVICE;
        return name == calls->proc || name == calls->sys ? LEFT_PROC : LEFT_NOT;
    }
    if (parent->left == LEFT_DEVICE && parent->dentry != NOBODY && calls->dentries[parent->dentry].dir == ROOT) {
        if (name == calls->shm)
            return LEFT_MEMORY;
        if (name == calls->ashmem)
            return LEFT_ASHMEM;
    }
    return parent->left;
}

uint8_t names_left(const struct calls *calls, const struct place *place)
{
    if (place->inode != NOBODY)
        return calls->inodes[place->inode].left;
    return place->dentry == NOBODY
               ? LEFT_NOT
               : left_of(calls, calls->dentries[place->dentry].dir, calls->dentries[place->dentry].name);
}

// A directory that is new, or not there, is empty.
static bool is_empty(const struct calls *calls, int32_t dir)
{
    const struct inode *inode = &calls->inodes[dir];

    return inode->origin == ORIGIN_MADE || inode->origin == ORIGIN_APPEARED ||
           (inode->origin == ORIGIN_UNKNOWN && inode->dentry != NOBODY &&
            calls->dentries[inode->dentry].state == NAME_ABSENT);
}

static int32_t settle_absent(struct calls *calls, int32_t number)
{
    struct dentry *dentry = &calls->dentries[number];

    if (dentry->state == NAME_UNKNOWN && is_empty(calls, dentry->dir))
        dentry->state = NAME_ABSENT;
    return number;
}

static int32_t dentry_of(struct calls *calls, int32_t dir, uint32_t name)
{
    uint64_t *slot = calls_slot(calls, &calls->dentry_numbers, (uint64_t)(uint32_t)dir, name);
    struct dentry *dentry;

    calls->inodes[dir].is_walked = true;
    if (*slot)
        return settle_absent(calls, (int32_t)(*slot - 1));
    *slot = calls->nr_dentries + 1;
    dentry = PUSH(calls, dentries);
    *dentry = (struct dentry){.dir = dir, .name = name, .inode = NOBODY, .path = NO_STRING, .changed_ns = INT64_MIN};
    return settle_absent(calls, (int32_t)calls->nr_dentries - 1);
}

// The inode of a name, which gets one of unknown origin where it has none.
static int32_t inode_of(struct calls *calls, int32_t dentry, uint8_t type)
{
    struct dentry *name = &calls->dentries[dentry];
    struct inode *inode;

    if (name->inode == NOBODY) {
        name->inode = inode_new(calls, type, ORIGIN_UNKNOWN);
        inode = &calls->inodes[name->inode];
        inode->dentry = dentry;
        inode->first_dir = name->dir;
        inode->first_name = name->name;
        inode->left = left_of(calls, name->dir, name->name);
        inode->nr_names = 1;
    }
    return name->inode = names_find(calls, name->inode);
}

static int32_t parent_of(struct calls *calls, int32_t dir)
{
    int32_t above;

    if (dir == ROOT)
        return ROOT;
    if (calls->inodes[dir].dentry != NOBODY)
        return names_find(calls, calls->dentries[calls->inodes[dir].dentry].dir);
    if (calls->inodes[dir].above == NOBODY) {
        above = inode_new(calls, TYPE_DIRECTORY, ORIGIN_START);
        calls->inodes[dir].above = above;
    }
    return calls->inodes[dir].above;
}

struct walk {
    int32_t dir;
    struct place place;
    int links;
};

static bool walk_text(struct calls *calls, struct walk *walk, const uint8_t *text, size_t length, bool follow);

static bool walk_link(struct calls *calls, struct walk *walk, const struct inode *link, int32_t dir)
{
    size_t length;
    const uint8_t *target = strings_text(calls->strings, link->target, &length);
    uint8_t copy[MOST_PATH_BYTES]; // strings move when one is added

    if (++walk->links > MOST_LINKS)
        return false;
    memcpy(copy, target, length);
    walk->dir = dir;
    return walk_text(calls, walk, copy, length, true);
}

static void walk_to(struct calls *calls, struct walk *walk, int32_t dir)
{
    walk->dir = dir;
    walk->place = (struct place){calls->inodes[dir].dentry, dir};
}

static int32_t number_in(const uint8_t *text, size_t length)
{
    int32_t number = 0;

    if (!length || length > 9)
        return NOBODY;
    for (size_t n = 0; n < length; n++) {
        if (text[n] < '0' || text[n] > '9')
            return NOBODY;
        number = 10 * number + (text[n] - '0');
    }
    return number;
}

// The process whose descriptors a directory shows: /proc/PID/fd, of this process also /proc/self/fd and /dev/fd.
static int32_t shown_process(const struct calls *calls, int32_t dir)
{
    int32_t own = calls->processes[calls->threads[calls->thread].process].pid;
    const struct dentry *fd, *above;
    const uint8_t *name;
    size_t length;

    if (calls->inodes[dir].dentry == NOBODY)
        return NOBODY;
    fd = &calls->dentries[calls->inodes[dir].dentry];
    if (fd->name != calls->fd || calls->inodes[fd->dir].dentry == NOBODY)
        return NOBODY;
    above = &calls->dentries[calls->inodes[fd->dir].dentry];
    if (above->dir == ROOT)
        return above->name == calls->dev ? own : NOBODY;
    if (calls->inodes[above->dir].left != LEFT_PROC)
        return NOBODY;
    name = strings_text(calls->strings, above->name, &length);
    return above->name == calls->self || above->name == calls->thread_self ? own : number_in(name, length);
}

// The file that is open as the descriptor that a name in such a directory is; NOBODY: it is no such name.
static int32_t open_file(struct calls *calls, int32_t dir, const uint8_t *text, size_t length)
{
    int32_t fd = calls->inodes[dir].left ? number_in(text, length) : NOBODY, pid;

    if (fd == NOBODY)
        return NOBODY;
    pid = shown_process(calls, dir);
    return pid == NOBODY ? NOBODY : descriptor_leads_to(calls, pid, fd);
}

static bool walk_name(struct calls *calls, struct walk *walk, const uint8_t *text, size_t length, bool is_last,
                      bool follow)
{
    int32_t dir = walk->dir, dentry, inode = !is_last || follow ? open_file(calls, dir, text, length) : NOBODY;

    if (inode != NOBODY) {
        walk_to(calls, walk, inode);
        return true;
    }
    dentry = dentry_of(calls, dir, calls_string(calls, text, length));
    inode = calls->dentries[dentry].inode;
    if (inode != NOBODY)
        inode = names_find(calls, inode);
    if (inode != NOBODY && calls->dentries[dentry].state != NAME_ABSENT && calls->inodes[inode].type == TYPE_SYMLINK &&
        calls->inodes[inode].target != NO_STRING && (!is_last || follow))
        return walk_link(calls, walk, &calls->inodes[inode], dir);
    if (!is_last)
        inode = inode_of(calls, dentry, TYPE_UNKNOWN);
    walk->place = (struct place){dentry, inode};
    walk->dir = inode;
    return true;
}

static bool walk_text(struct calls *calls, struct walk *walk, const uint8_t *text, size_t length, bool follow)
{
    const uint8_t *end = text + length;

    if (!length || memchr(text, 0, length))
        return false;
    walk_to(calls, walk, *text == '/' ? ROOT : walk->dir);
    while (text < end) {
        const uint8_t *slash = memchr(text, '/', (size_t)(end - text));
        const uint8_t *rest = slash ? slash + 1 : end;
        size_t bytes = (size_t)((slash ? slash : end) - text);

        while (rest < end && *rest == '/')
            rest++;
        if (walk->dir == NOBODY) // a link led to a name that nothing is known of
            walk->dir = walk->place.inode = inode_of(calls, walk->place.dentry, TYPE_UNKNOWN);
        if (bytes == 2 && !memcmp(text, "..", 2))
            walk_to(calls, walk, parent_of(calls, walk->dir));
        else if (bytes && (bytes != 1 || *text != '.') &&
                 !walk_name(calls, walk, text, bytes, rest == end, follow || slash))
            return false;
        text = rest;
    }
    return true;
}

// Where the path leads from directory `start`; false where it is none, or leads in circles.
bool names_walk(struct calls *calls, int32_t start, uint32_t text, bool follow, struct place *place)
{
    struct walk walk = {.dir = start};
    const uint8_t *at;
    size_t length;

    if (!text_of(calls, text, &at, &length) || !walk_text(calls, &walk, at, length, follow))
        return false;
    *place = walk.place;
    return true;
}

// The recorded calls alone cannot have led to what a call found: something else made or removed the name before. Names
// that are no files come and go by themselves.
static void changed(struct calls *calls, int32_t dentry, int32_t inode, bool is_gone)
{
    struct change *change;
    uint32_t path;

    if (left_of(calls, calls->dentries[dentry].dir, calls->dentries[dentry].name))
        return;
    calls->conflicts++;
    path = names_path(calls, dentry);
    if (path == NO_STRING)
        return;
    change = PUSH(calls, changes);
    *change = (struct change){calls->row, path, calls->thread, inode, is_gone};
}

// Of those that came to be above each other the uppermost was found last.
static void turn_changes(struct calls *calls, size_t first)
{
    for (size_t last = calls->nr_changes; first + 1 < last; first++) {
        struct change first_change = calls->changes[first];

        calls->changes[first] = calls->changes[--last];
        calls->changes[last] = first_change;
    }
}

// Makes the directories that lead to a name part of the tree: something in them is there.
static void confirm_above(struct calls *calls, int32_t dentry)
{
    size_t first = calls->nr_changes;

    while (dentry != NOBODY) {
        int32_t dir = calls->dentries[dentry].dir;
        struct inode *inode = &calls->inodes[dir];

        inode->type = TYPE_DIRECTORY;
        if (inode->origin != ORIGIN_UNKNOWN &&
            (inode->dentry == NOBODY || calls->dentries[inode->dentry].state == NAME_PRESENT))
            break;
        if (inode->origin == ORIGIN_UNKNOWN)
            inode->origin = ORIGIN_START;
        dentry = inode->dentry;
        if (dentry != NOBODY) {
            if (calls->dentries[dentry].state == NAME_ABSENT) {
                inode->origin = ORIGIN_APPEARED;
                changed(calls, dentry, dir, false);
            }
            calls->dentries[dentry].state = NAME_PRESENT;
        }
    }
    turn_changes(calls, first);
}

// A file is at a place that was empty.
static void appear(struct calls *calls, int32_t number, uint8_t type)
{
    struct dentry *dentry = &calls->dentries[number];
    int32_t inode;

    if (dentry->inode != NOBODY && calls->inodes[dentry->inode].origin != ORIGIN_UNKNOWN)
        dentry->inode = NOBODY;
    inode = inode_of(calls, number, type);
    calls->inodes[inode].origin = ORIGIN_APPEARED;
    confirm_above(calls, number);
    changed(calls, number, inode, false);
}

// There is a file at the place. What was not made was there from the start on.
void names_confirm(struct calls *calls, struct place *place, uint8_t type)
{
    struct dentry *dentry;
    struct inode *inode;

    if (place->dentry == NOBODY)
        return;
    if (calls->dentries[place->dentry].state == NAME_ABSENT)
        appear(calls, place->dentry, type);
    place->inode = inode_of(calls, place->dentry, type);
    dentry = &calls->dentries[place->dentry];
    dentry->state = NAME_PRESENT;
    inode = &calls->inodes[place->inode];
    if (inode->origin == ORIGIN_UNKNOWN)
        inode->origin = ORIGIN_START;
    if (type != TYPE_UNKNOWN && inode->type == TYPE_UNKNOWN)
        inode->type = type;
    confirm_above(calls, place->dentry);
}

static void take_name(struct calls *calls, int32_t dentry)
{
    int32_t number = calls->dentries[dentry].inode;
    struct inode *inode;

    if (number == NOBODY || calls->dentries[dentry].state == NAME_ABSENT)
        return;
    number = names_find(calls, number);
    inode = &calls->inodes[number];
    if (inode->dentry == dentry)
        inode->dentry = NOBODY;
    if (inode->nr_names && !--inode->nr_names && inode->ino != NO_INT64 &&
        map_value(&calls->inode_numbers, inode->dev, (uint64_t)inode->ino) == (uint64_t)number + 1)
        map_remove(&calls->inode_numbers, inode->dev, (uint64_t)inode->ino);
}

void names_remove(struct calls *calls, const struct place *place)
{
    if (place->dentry == NOBODY)
        return;
    take_name(calls, place->dentry);
    calls->dentries[place->dentry].inode = NOBODY;
    calls->dentries[place->dentry].state = NAME_ABSENT;
    calls->tree_version++;
}

// The file at the place is gone. Of a directory nobody knows what became of all that was in it.
static void disappear(struct calls *calls, int32_t dentry)
{
    struct place place = {dentry, calls->dentries[dentry].inode};

    if (place.inode != NOBODY && calls->inodes[names_find(calls, place.inode)].is_walked) {
        calls->conflicts++;
        return;
    }
    changed(calls, dentry, place.inode, true);
    names_remove(calls, &place);
}

// A file came to the place in a way that no operation can do.
void names_appear(struct calls *calls, struct place *place)
{
    if (place->dentry == NOBODY || calls->dentries[place->dentry].state == NAME_PRESENT)
        return;
    calls->dentries[place->dentry].state = NAME_ABSENT;
    names_confirm(calls, place, TYPE_FILE);
}

// A call found nothing at the place. Where the directories above are not known to be there, it may be one of them.
void names_absent(struct calls *calls, const struct place *place)
{
    struct dentry *dentry;
    const struct inode *dir;

    if (place->dentry == NOBODY)
        return;
    dentry = &calls->dentries[place->dentry];
    dir = &calls->inodes[dentry->dir];
    if (dentry->state == NAME_PRESENT && dentry->changed_ns <= calls->in->ts_ns[calls->row])
        disappear(calls, place->dentry);
    else if (dentry->state != NAME_PRESENT && dir->origin != ORIGIN_UNKNOWN)
        dentry->state = NAME_ABSENT;
}

static void give_name(struct calls *calls, int32_t dentry, int32_t number)
{
    struct inode *inode = &calls->inodes[number];

    calls->dentries[dentry].inode = number;
    calls->dentries[dentry].state = NAME_PRESENT;
    calls->dentries[dentry].changed_ns = calls->end_ns;
    inode->dentry = dentry;
    inode->nr_names++;
    confirm_above(calls, dentry);
}

// A call made a file at the place; of ORIGIN_MAYBE that is not sure.
void names_make(struct calls *calls, struct place *place, uint8_t type, uint8_t origin)
{
    struct inode *inode;

    if (place->dentry == NOBODY)
        return;
    if (calls->dentries[place->dentry].state == NAME_PRESENT)
        disappear(calls, place->dentry);
    take_name(calls, place->dentry);
    place->inode = inode_new(calls, type, origin);
    inode = &calls->inodes[place->inode];
    inode->left = left_of(calls, calls->dentries[place->dentry].dir, calls->dentries[place->dentry].name);
    inode->first_dir = calls->dentries[place->dentry].dir;
    inode->first_name = calls->dentries[place->dentry].name;
    give_name(calls, place->dentry, place->inode);
}

// What is so deep that no path leads there counts as beneath everything: to go up from it for each call takes too long.
static bool is_above(struct calls *calls, int32_t inode, int32_t dentry)
{
    for (int depth = 0; dentry != NOBODY; depth++) {
        int32_t dir = names_find(calls, calls->dentries[dentry].dir);

        if (dir == inode || depth > MOST_PATH_BYTES / 2)
            return true;
        dentry = calls->inodes[dir].dentry;
    }
    return false;
}

// No kernel moves a directory into itself, but a recording may say so.
void names_rename(struct calls *calls, const struct place *from, const struct place *to, bool exchange)
{
    if (from->dentry == NOBODY || to->dentry == NOBODY || from->dentry == to->dentry || from->inode == NOBODY)
        return;
    if (is_above(calls, from->inode, to->dentry) || (to->inode != NOBODY && is_above(calls, to->inode, from->dentry))) {
        calls->conflicts++;
        return;
    }
    if (!exchange && to->inode == from->inode) // two names of one file stay
        return;
    take_name(calls, to->dentry);
    take_name(calls, from->dentry);
    give_name(calls, to->dentry, from->inode);
    // A directory that a recording gives two names can be above its own place only now.
    if (exchange && to->inode != NOBODY && !is_above(calls, to->inode, from->dentry)) {
        give_name(calls, from->dentry, to->inode);
    } else {
        calls->dentries[from->dentry].inode = NOBODY;
        calls->dentries[from->dentry].state = NAME_ABSENT;
    }
    calls->tree_version++;
}

void names_link(struct calls *calls, int32_t inode, const struct place *to)
{
    if (to->dentry == NOBODY)
        return;
    if (is_above(calls, inode, to->dentry)) {
        calls->conflicts++;
        return;
    }
    take_name(calls, to->dentry);
    give_name(calls, to->dentry, inode);
}

static void join(struct calls *calls, int32_t into, int32_t other)
{
    struct inode *survivor = &calls->inodes[into], *joined = &calls->inodes[other];

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

// Takes in which inode of which device a file is; two names of files of the start may turn out to be of one. Returns
// what the file is from now on.
int32_t names_identify(struct calls *calls, struct place *place, int32_t number, uint32_t dev, int64_t ino)
{
    struct inode *inode;
    uint64_t *slot;
    int32_t other;

    number = names_find(calls, number);
    if (number == NOBODY || dev == NO_UINT32 || ino == NO_INT64)
        return number;
    inode = &calls->inodes[number];
    if (inode->ino == ino && inode->dev == dev)
        return number;
    if (inode->ino != NO_INT64) { // another file is there now, and nobody was seen putting it there
        calls->conflicts++;
        if (!place || place->dentry == NOBODY)
            return number;
        names_make(calls, place, inode->type, ORIGIN_START);
        number = place->inode;
        inode = &calls->inodes[number];
    }
    slot = calls_slot(calls, &calls->inode_numbers, dev, (uint64_t)ino);
    other = *slot ? names_find(calls, (int32_t)(*slot - 1)) : NOBODY;
    if (other != NOBODY && other != number && inode->type != TYPE_DIRECTORY &&
        calls->inodes[other].type != TYPE_DIRECTORY && calls->inodes[other].nr_names && inode->origin == ORIGIN_START &&
        calls->inodes[other].origin == ORIGIN_START) {
        join(calls, other, number);
        return other;
    }
    *slot = (uint64_t)number + 1;
    inode->dev = dev;
    inode->ino = ino;
    return number;
}

static void reserve(struct calls *calls, size_t bytes)
{
    size_t room = calls->room_scratch ? calls->room_scratch : 256;
    uint8_t *grown;

    if (bytes <= calls->room_scratch)
        return;
    while (room < bytes)
        room *= 2;
    grown = calls_allocate(calls, room);
    if (calls->scratch) // what is written stands at the end
        memcpy(grown + room - calls->room_scratch, calls->scratch, calls->room_scratch);
    free(calls->scratch);
    calls->scratch = grown;
    calls->room_scratch = room;
}

// Puts a name, and a slash behind it unless it is the last, before the `used` bytes at the end of the scratch.
static size_t put_before(struct calls *calls, size_t used, uint32_t name)
{
    size_t length;
    const uint8_t *text = strings_text(calls->strings, name, &length);

    reserve(calls, used + length + 1);
    if (used)
        calls->scratch[calls->room_scratch - ++used] = '/';
    used += length;
    memcpy(calls->scratch + calls->room_scratch - used, text, length);
    return used;
}

static uint32_t take_scratch(struct calls *calls, size_t used)
{
    return used > MOST_PATH_BYTES ? NO_STRING : calls_string(calls, calls->scratch + calls->room_scratch - used, used);
}

uint32_t names_unnamed_path(struct calls *calls, int32_t inode)
{
    char name[32] = ".unnamed/";
    char digits[12];
    size_t length = 9, count = 0;
    uint32_t number;

    if (calls->inodes[inode].unnamed == NOBODY)
        calls->inodes[inode].unnamed = (int32_t)calls->nr_unnamed++;
    number = (uint32_t)calls->inodes[inode].unnamed;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count)
        name[length++] = digits[--count];
    return calls_string(calls, (const uint8_t *)name, length);
}

static uint32_t dot(struct calls *calls)
{
    return calls_string(calls, (const uint8_t *)".", 1);
}

// The path of a name now; of NOBODY that of the root. No more than one name beyond what a path can hold is gathered:
// the paths of directories that are made one in the other grow with the square of their number.
uint32_t names_path(struct calls *calls, int32_t dentry)
{
    size_t used = 0;
    int32_t at = dentry, dir;

    if (dentry == NOBODY)
        return dot(calls);
    if (calls->dentries[dentry].path_version == calls->tree_version)
        return calls->dentries[dentry].path;
    while (used <= MOST_PATH_BYTES) {
        used = put_before(calls, used, calls->dentries[at].name);
        dir = names_find(calls, calls->dentries[at].dir);
        if (dir == ROOT)
            break;
        at = calls->inodes[dir].dentry;
        if (at == NOBODY) {
            used = put_before(calls, used, names_unnamed_path(calls, dir));
            break;
        }
    }
    calls->dentries[dentry].path = take_scratch(calls, used);
    calls->dentries[dentry].path_version = calls->tree_version;
    return calls->dentries[dentry].path;
}

uint32_t names_first_path(struct calls *calls, int32_t inode)
{
    size_t used = 0;

    while (inode != ROOT && used <= MOST_PATH_BYTES) {
        if (calls->inodes[inode].origin != ORIGIN_START)
            return NO_STRING;
        if (calls->inodes[inode].first_dir == NOBODY) {
            used = put_before(calls, used, names_unnamed_path(calls, inode));
            break;
        }
        used = put_before(calls, used, calls->inodes[inode].first_name);
        inode = calls->inodes[inode].first_dir;
    }
    return used ? take_scratch(calls, used) : dot(calls);
}
