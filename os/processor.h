// processor.h: a processor's name and features, as the system reports. `root` stands before /proc: "" but in tests.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// "AMD EPYC 7763 64-Core Processor"; "AMD EPYC (Zen 5)" where the name has no model; "Arm Neoverse-V1 r1p1"; where
// cores differ and the board has a name, "Radxa ROCK 5B: 4 Arm Cortex-A55 r2p0, 4 Arm Cortex-A76 r4p0"; "SiFive HiFive
// Unmatched A00: sifive,u74-mc rv64imafdc".
void os_processor_name(const char *root, char *name, size_t size_bytes);

// "Zen 4": the cores of x86-64 processors whose width differs; "": others.
void os_processor_generation(const char *root, char *text, size_t size_bytes);

// The extensions of the first processor's instruction set, by the system's names, between blanks; for RISC-V after its
// base, "rv64imafdcv v zicsr zvl128b". False: unknown.
bool os_processor_features(const char *root, char *words, size_t size_bytes);
