// report_assets.S: the pages' styles and scripts (report_page.h), as the assembler includes them. The build makes
// page_assets.list: a line ASSET(stem, ending, "path") for each.
#define ASSET(stem, ending, path)         \
    .globl page_asset_##stem##_##ending ; \
    page_asset_##stem##_##ending: ;       \
    .incbin path ;                        \
    .byte 0
    .section .rodata
#include "page_assets.list"
    .section .note.GNU-stack,"",%progbits
