// remove_tree.c: see remove_tree.h.
#include "src/processes/remove_tree.h"

#include <ftw.h>
#include <stdio.h>

enum { MOST_OPEN = 16 };

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place) {
    (void)info;
    (void)type;
    (void)place;
    (void)remove(path);
    return 0;
}

void sm_remove_tree(const char *folder) { (void)nftw(folder, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS); }
