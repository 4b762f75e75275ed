// own_members.h: the list of a user's kernel's arguments, from which own_kernel.c makes a struct in C, and own_opencl.c
// the parameters of a kernel in OpenCL C.
#ifndef STEPMARK_OWN_MEMBERS_H
#define STEPMARK_OWN_MEMBERS_H

#include "own_kernel.h"

typedef enum {
    OWN_DIMENSION,
    OWN_HEAD_SIZE, // HS, a dimension that no shape has
    OWN_INTEGER,
    OWN_REAL,
    OWN_KEEP,
    OWN_RNG,
    OWN_INPUT,
    OWN_OUTPUT,
    OWN_THREAD
} own_member_type;

typedef struct {
    char name[16];
    own_member_type type;
    int index; // OWN_INPUT, OWN_OUTPUT: of the operand; OWN_INTEGER, OWN_REAL: the attribute
} own_member;

typedef struct {
    own_member list[SM_OWN_MAX_MEMBERS];
    int n;
} own_members;

own_members own_members_of(sm_op_kind kind);

// For what is printed: a member's operand (NULL: it is none); what it is, to the end of the line; the places in hyper,
// where the kind reads it.
const sm_operand_info *own_operand_of(const sm_op_info *info, const own_member *m);
void own_print_meaning(const sm_op_info *info, const own_member *m, FILE *out);
void own_print_places(const sm_op_info *info, FILE *out);

#endif
