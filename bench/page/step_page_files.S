// step_page_files.S: style, frame and script of the page of a step (step_page.c), as the assembler includes them.
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define PAGE_FILE(kind)                    \
    .globl step_page_##kind ;              \
    step_page_##kind: ;                    \
    .incbin TEXT(step_page.kind) ;         \
    .globl step_page_end_##kind ;          \
    step_page_end_##kind: ;                \
    .byte 0
    .section .rodata
    PAGE_FILE(css)
    PAGE_FILE(html)
    PAGE_FILE(js)
    .section .note.GNU-stack,"",%progbits
