// Paths as a tree: every directory on the way to a path has a number, and each its parent.
#pragma once

#include "core/map.h"
#include "core/table.h"

enum { ROOT_NODE = 0 };

struct path_tree {
    struct strings *names;
    struct map nodes; // by parent and name
    uint32_t *parents;
    size_t count, room;
};

// An empty tree has its root; false where memory is short.
bool path_tree_make(struct path_tree *tree);
void path_tree_free(struct path_tree *tree);

// Tells the number of the path (`.` and nothing are the root), which is taken in if it is new, and so are all
// directories on the way; false where memory is short.
bool path_tree_add(struct path_tree *tree, const uint8_t *path, size_t length, uint32_t *node);
