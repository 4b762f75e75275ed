// fibers.h: the items of a work-group as fibers of one thread, for an emulation. x86-64.
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { MOST_ITEMS = 1024, STACK_BYTES = 1 << 18 };

typedef struct {
    void *stack, *sp;
    int is_done;
} fiber;

static fiber fibers[MOST_ITEMS];
static void *scheduler;
static void (*kernel)(void);
static int n_items, current, n_at_barrier;
static uint64_t n_barriers, n_events; // events: something that others may wait for

void fibers_switch(void **from, void *to);
__asm__(".text\n.globl fibers_switch\n.type fibers_switch, @function\nfibers_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

static void let_others(void) { fibers_switch(&fibers[current].sp, scheduler); }

static void start_fiber(void) {
    kernel();
    fibers[current].is_done = 1;
    n_events++;
    let_others();
    abort();
}

static void make_fiber(fiber *x) {
    if (x->stack == NULL) {
        x->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    void **top = (void **)((char *)x->stack + STACK_BYTES) - 1; // a call leaves the stack 8 beyond a multiple of 16
    top[0] = NULL;
    top[-1] = (void *)(uintptr_t)start_fiber;
    x->sp = top - 7; // and six registers
    x->is_done = 0;
}

// Runs `kernel` as n_items items; 0: they wait for one another, and nothing happens any more.
static int run_fibers(void) {
    int n_left = n_items;
    for (int i = 0; i < n_items; i++) {
        make_fiber(&fibers[i]);
    }
    while (n_left > 0) {
        const uint64_t before = n_events;
        n_left = 0;
        for (current = 0; current < n_items; current++) {
            if (!fibers[current].is_done) {
                fibers_switch(&scheduler, fibers[current].sp);
                n_left += !fibers[current].is_done;
            }
        }
        if (n_left > 0 && n_events == before) {
            current = 0;
            return 0;
        }
    }
    return 1;
}

static void await_barrier(void) {
    const uint64_t before = n_barriers;
    n_events++;
    if (++n_at_barrier == n_items) {
        n_at_barrier = 0;
        n_barriers++;
    }
    while (n_barriers == before) {
        let_others();
    }
}
