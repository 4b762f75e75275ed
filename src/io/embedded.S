// embedded.S: the embedded files and a table of them (embedded.h), as the assembler includes them. The build makes
// embedded.list: a line EMBED "path" for each.
#if defined(_WIN32)
#define READ_ONLY .section .rdata, "dr"
#define TABLE     .data
#elif defined(__APPLE__)
#define READ_ONLY .section __TEXT, __const
#define TABLE     .section __DATA, __const
#define sm_embedded_files _sm_embedded_files
#define sm_embedded_bytes _sm_embedded_bytes
#else
#define READ_ONLY .section .rodata
#define TABLE     .section .data.rel.ro, "aw"
#endif
.macro EMBED path
    READ_ONLY
1:  .asciz "\path"
2:  .incbin "\path"
3:  .byte 0
    TABLE
    .quad 1b, 2b, 3b - 2b
.endm
    TABLE
    .balign 8
    .globl sm_embedded_files
sm_embedded_files:
#include "embedded.list"
    TABLE
    .globl sm_embedded_bytes
sm_embedded_bytes:
    .quad sm_embedded_bytes - sm_embedded_files
#if defined(__ELF__)
    .section .note.GNU-stack,"",%progbits
#endif
