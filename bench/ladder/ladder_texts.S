// ladder_texts.S: the sources of the rungs (ladder_texts.c), as the assembler includes them. The build makes
// ladder_texts.list: a line TEXT(name, "path") for each.
#define TEXT(name, path)              \
    .globl ladder_text_##name ;       \
    ladder_text_##name: ;             \
    .incbin path ;                    \
    .globl ladder_text_end_##name ;   \
    ladder_text_end_##name: ;         \
    .byte 0
    .section .rodata
#include "ladder_texts.list"
    .section .note.GNU-stack,"",%progbits
