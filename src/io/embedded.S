// embedded.S: the embedded files and a table of them (embedded.h), as the assembler includes them. The build makes
// embedded.list: a line EMBED("path") for each.
#define EMBED(path)                        \
    .section .rodata ;                     \
1:  .asciz path ;                          \
2:  .incbin path ;                         \
3:  .byte 0 ;                              \
    .section .data.rel.ro, "aw" ;          \
    .quad 1b, 2b, 3b - 2b
    .section .data.rel.ro, "aw"
    .balign 8
    .globl sm_embedded_files
sm_embedded_files:
#include "embedded.list"
    .section .data.rel.ro, "aw"
    .globl sm_embedded_bytes
sm_embedded_bytes:
    .quad sm_embedded_bytes - sm_embedded_files
    .section .note.GNU-stack,"",%progbits
