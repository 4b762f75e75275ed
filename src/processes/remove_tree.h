// remove_tree.h: removes a folder of a process that has ended, whatever it left there.
#ifndef STEPMARK_REMOVE_TREE_H
#define STEPMARK_REMOVE_TREE_H

// Follows no link. What cannot be removed stays.
void sm_remove_tree(const char *folder);

#endif
