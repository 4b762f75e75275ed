// own_members.h: the arguments of a user's kernel as a list; own_kernel.c makes a struct in C from it, own_opencl.c the
// parameters of a kernel in OpenCL C.
#pragma once

#include "own_kernel.h"

typedef enum {
    OWN_DIMENSION,
    OWN_HEAD_SIZE, // HS, which no shape has
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
    int index; // OWN_INPUT, OWN_OUTPUT: of the operand; OWN_INTEGER, OWN_REAL: of the attribute
} own_member;

typedef struct {
    own_member list[SM_OWN_MAX_MEMBERS];
    int n;
} own_members;

own_members own_members_of(sm_op_kind kind);

// Whether a kernel in OpenCL C lacks such a member.
static inline bool own_is_of_c_alone(own_member_type type) { return type == OWN_KEEP || type == OWN_THREAD; }

void own_signature(sm_op_kind kind, sm_own_language language, char text[SM_OWN_SIGNATURE_SIZE]);

// For printing: a member's operand (NULL: none); its meaning, to the line's end; the indices of hyper, if it is read.
const sm_operand_info *own_operand_of(const sm_op_info *info, const own_member *m);
void own_print_meaning(const sm_op_info *info, const own_member *m, FILE *out);
void own_print_places(sm_op_kind kind, FILE *out);
