// corpus.S: the embedded text (corpus.h), as the assembler includes it.
    .section .rodata
    .balign 8
    .globl sm_corpus_data
sm_corpus_data:
    .incbin CORPUS_FILE
sm_corpus_end:
    .balign 8
    .globl sm_corpus_size_bytes
sm_corpus_size_bytes:
    .quad sm_corpus_end - sm_corpus_data
    .section .note.GNU-stack,"",%progbits
