// Paths as a tree: every directory on a path is a node with a parent.
#pragma once

#include "core/map.h"
#include "core/table.h"

enum { ROOT_NODE = 0 };

struct path_tree {
    struct strings *names;
    struct map nodes; // by parent and name
    uint32_t *parents;
    size_t count, capacity;
};

// Creates a tree with its root; false without memory.
bool path_tree_make(struct path_tree *tree);
void path_tree_free(struct path_tree *tree);

// Finds the node of a path and adds it, with all directories above, if it is new. `.` and the empty path are the root.
// Returns false without memory.
bool path_tree_add(struct path_tree *tree, const uint8_t *path, size_t length, uint32_t *node);
