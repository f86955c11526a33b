#include "iotrace/iotrace.h"

/* From include/uapi/linux/btf.h, which the headers of older C libraries lack. */
enum { MAGIC = 0xeb9f, MAX_DEPTH = 32 };

/* Kinds of types that are looked at. */
enum kind {
    KIND_PTR = 2,
    KIND_STRUCT = 4,
    KIND_UNION = 5,
    KIND_TYPEDEF = 8,
    KIND_VOLATILE = 9,
    KIND_CONST = 10,
    KIND_RESTRICT = 11,
    KIND_FUNC = 12,
    KIND_FUNC_PROTO = 13,
    KIND_TYPE_TAG = 18,
};

/* Bytes after the fixed part of a type, and for each of its members, by kind: from BTF_KIND_INT (1) to
 * BTF_KIND_ENUM64 (19). */
static const struct {
    unsigned char once, each;
} extra[] = {
    [1] = {4, 0},  {0, 0}, {12, 0}, {0, 12}, {0, 12}, {0, 8}, {0, 0}, {0, 0}, {0, 0},  {0, 0},
    [11] = {0, 0}, {0, 0}, {0, 8},  {4, 0},  {0, 12}, {0, 0}, {4, 0}, {0, 0}, {0, 12},
};

struct header {
    uint16_t magic;
    uint8_t version, flags;
    uint32_t header_bytes, types_at, types_bytes, strings_at, strings_bytes;
};

struct type {
    uint32_t name, info, size_or_type;
};

struct member {
    uint32_t name, type, offset; /* offset in bits; below bit 24 if the struct has bit fields */
};

struct parameter {
    uint32_t name, type;
};

struct btf {
    struct contents file;
    const char *strings;
    uint32_t strings_bytes;
    const struct type **types; /* by type ID; ID 0 is void */
    uint32_t nr_types;
    const struct type *last; /* the struct found last: most members are asked for one after the other */
};

static enum kind kind_of(const struct type *type)
{
    return (enum kind)(type->info >> 24 & 0x1f);
}

static uint32_t count_of(const struct type *type)
{
    return type->info & 0xffff;
}

/* Return the number of bytes after the fixed part of a type; -1 for unknown kinds. */
static long extra_bytes(const struct type *type)
{
    size_t kind = kind_of(type);
    return kind > 0 && kind < sizeof extra / sizeof *extra ? extra[kind].once + (long)count_of(type) * extra[kind].each
                                                           : -1;
}

/* Index the types up to the first of an unknown kind; the types after it cannot be located. */
static void index_types(struct btf *btf, const char *from, const char *end)
{
    size_t capacity = 1024;
    btf->types = grow(NULL, capacity, sizeof *btf->types);
    btf->types[0] = NULL;
    btf->nr_types = 1;
    while ((size_t)(end - from) >= sizeof(struct type)) {
        const struct type *type = (const struct type *)(const void *)from;
        long extra = extra_bytes(type);
        if (extra < 0 || extra > end - from - (long)sizeof *type)
            return;
        if (btf->nr_types == capacity)
            btf->types = grow(btf->types, capacity *= 2, sizeof *btf->types);
        btf->types[btf->nr_types++] = type;
        from += (long)sizeof *type + extra;
    }
}

static bool parse(struct btf *btf)
{
    struct header header;
    if (btf->file.size < sizeof header)
        return false;
    memcpy(&header, btf->file.data, sizeof header);
    uint64_t types = (uint64_t)header.header_bytes + header.types_at;
    uint64_t strings = (uint64_t)header.header_bytes + header.strings_at;
    if (header.magic != MAGIC || types % 4 != 0 || types + header.types_bytes > btf->file.size ||
        strings + header.strings_bytes > btf->file.size || header.strings_bytes == 0)
        return false;
    btf->strings = btf->file.data + strings;
    btf->strings_bytes = header.strings_bytes;
    index_types(btf, btf->file.data + types, btf->file.data + types + header.types_bytes);
    return btf->strings[btf->strings_bytes - 1] == '\0';
}

struct btf *btf_open(const char *path)
{
    struct btf *btf = grow(NULL, 1, sizeof *btf);
    *btf = (struct btf){0};
    if (file_read(AT_FDCWD, path, &btf->file) == 0 && parse(btf))
        return btf;
    btf_close(btf);
    return NULL;
}

void btf_close(struct btf *btf)
{
    if (!btf)
        return;
    free(btf->file.data);
    free(btf->types);
    free(btf);
}

static const char *name_at(const struct btf *btf, uint32_t offset)
{
    return offset < btf->strings_bytes ? btf->strings + offset : "";
}

static const struct type *find(const struct btf *btf, enum kind kind, const char *name)
{
    for (uint32_t i = 1; i < btf->nr_types; i++)
        if (kind_of(btf->types[i]) == kind && strcmp(name_at(btf, btf->types[i]->name), name) == 0)
            return btf->types[i];
    return NULL;
}

static const struct type *type_at(const struct btf *btf, uint32_t number)
{
    return number < btf->nr_types ? btf->types[number] : NULL;
}

/* Return the type without typedefs and qualifiers. */
static const struct type *bare(const struct btf *btf, uint32_t number)
{
    const struct type *type = type_at(btf, number);
    for (int depth = 0; type && depth < MAX_DEPTH; depth++) {
        enum kind kind = kind_of(type);
        if (kind != KIND_TYPEDEF && kind != KIND_VOLATILE && kind != KIND_CONST && kind != KIND_RESTRICT &&
            kind != KIND_TYPE_TAG)
            return type;
        type = type_at(btf, type->size_or_type);
    }
    return NULL;
}

static long member_offset(const struct btf *btf, const struct type *type, const char *path, int depth)
{
    if (!type || depth > MAX_DEPTH || (kind_of(type) != KIND_STRUCT && kind_of(type) != KIND_UNION))
        return -1;
    const struct member *members = (const struct member *)(const void *)(type + 1);
    size_t length = strcspn(path, ".");
    for (uint32_t i = 0; i < count_of(type); i++) {
        const char *name = name_at(btf, members[i].name);
        long offset = (type->info >> 31 ? members[i].offset & 0xffffff : members[i].offset) / 8, below = -1;
        if (*name == '\0')
            below = member_offset(btf, bare(btf, members[i].type), path, depth + 1);
        else if (strncmp(name, path, length) == 0 && name[length] == '\0')
            below =
                path[length] == '\0' ? 0 : member_offset(btf, bare(btf, members[i].type), path + length + 1, depth + 1);
        if (below >= 0)
            return offset + below;
    }
    return -1;
}

long btf_offset(struct btf *btf, const char *structure, const char *path)
{
    if (!btf->last || strcmp(name_at(btf, btf->last->name), structure) != 0)
        btf->last = find(btf, KIND_STRUCT, structure);
    return member_offset(btf, btf->last, path, 0);
}

bool btf_argument_is(const struct btf *btf, const char *name, unsigned position, const char *structure)
{
    const struct type *function = find(btf, KIND_FUNC, name);
    const struct type *prototype = function ? type_at(btf, function->size_or_type) : NULL;
    if (!prototype || kind_of(prototype) != KIND_FUNC_PROTO || position >= count_of(prototype))
        return false;
    const struct parameter *parameters = (const struct parameter *)(const void *)(prototype + 1);
    const struct type *pointer = bare(btf, parameters[position].type);
    const struct type *target = pointer && kind_of(pointer) == KIND_PTR ? bare(btf, pointer->size_or_type) : NULL;
    return target && kind_of(target) == KIND_STRUCT && strcmp(name_at(btf, target->name), structure) == 0;
}
