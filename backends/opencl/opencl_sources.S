// opencl_sources.S: the files of cl/ (opencl_sources.h), as the assembler includes them. The build makes
// opencl_sources.list: a line SOURCE(stem) for each.
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define SOURCE(stem)                       \
    .globl opencl_source_##stem ;          \
    opencl_source_##stem: ;                \
    .incbin TEXT(stem.cl) ;                \
    .globl opencl_source_end_##stem ;      \
    opencl_source_end_##stem: ;            \
    .byte 0
    .section .rodata
#include "opencl_sources.list"
    .section .note.GNU-stack,"",%progbits
