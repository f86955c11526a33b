// Names of directories repeat. Each is stored once, and a node is found by the index of its parent and that of its
// name.
#include "calls/path_tree.h"

#include "core/array.h"

#include <string.h>

static bool add_node(struct path_tree *tree, uint32_t parent)
{
    if (!array_reserve(&tree->parents, tree->count, &tree->capacity, sizeof(*tree->parents)))
        return false;
    tree->parents[tree->count++] = parent;
    return tree->count < UINT32_MAX;
}

bool path_tree_make(struct path_tree *tree)
{
    *tree = (struct path_tree){.names = strings_new()};
    return tree->names && add_node(tree, ROOT_NODE);
}

void path_tree_free(struct path_tree *tree)
{
    if (tree->names)
        strings_free(tree->names);
    map_free(&tree->nodes);
    free(tree->parents);
}

// Returns the node of a name in a directory; ROOT_NODE, which is not the node of any name, without memory.
static uint32_t child(struct path_tree *tree, uint32_t parent, const uint8_t *name, size_t length)
{
    uint32_t string = strings_add(tree->names, name, length);
    uint64_t *node = string == NO_STRING ? NULL : map_add(&tree->nodes, parent, string);

    if (!node)
        return ROOT_NODE;
    if (!*node) {
        *node = tree->count;
        if (!add_node(tree, parent))
            return ROOT_NODE;
    }
    return (uint32_t)*node;
}

bool path_tree_add(struct path_tree *tree, const uint8_t *path, size_t length, uint32_t *node)
{
    const uint8_t *end = path + length;

    *node = ROOT_NODE;
    while (path < end) {
        const uint8_t *slash = memchr(path, '/', (size_t)(end - path));
        size_t size = (size_t)((slash ? slash : end) - path);

        if (size && !(size == 1 && *path == '.')) {
            *node = child(tree, *node, path, size);
            if (*node == ROOT_NODE)
                return false;
        }
        path += size + 1;
    }
    return true;
}
