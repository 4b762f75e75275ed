// remove_tree.h: removes the folder of a process that has ended, with all its contents.
#ifndef STEPMARK_REMOVE_TREE_H
#define STEPMARK_REMOVE_TREE_H

// Follows no links. Files that cannot be removed stay.
void sm_remove_tree(const char *folder);

#endif
