// datasheet.c: see datasheet.h.
#include "bench/score/datasheet.h"

#include "os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AMPERE_GA102 "NVIDIA Ampere GA102 whitepaper, 2021"
#define ADA          "NVIDIA Ada whitepaper, 2023"
#define BLACKWELL    "NVIDIA RTX Blackwell whitepaper, 2025"
#define HOPPER       "NVIDIA H100 datasheet, 2023; half of the sparse rates"
#define HOPPER_2     "NVIDIA H200 datasheet, 2024; half of the sparse rates"

// The more special name first.
static const sm_datasheet lines[] = {
    {"A100", NULL, 19.5, 156, 312, "NVIDIA A100 datasheet, 2021"},
    {"H100 PCIe", NULL, 51.2, 378, 756, HOPPER},
    {"H100 NVL", NULL, 60, 417.5, 835, HOPPER},
    {"H100", NULL, 66.9, 494.7, 989.4, HOPPER},
    {"H200 NVL", NULL, 60, 417.5, 835.5, HOPPER_2},
    {"H200", NULL, 66.9, 494.7, 989.4, HOPPER_2},
    {"B200", NULL, 75, 1125, 2250, "NVIDIA HGX B200 datasheet, 2025, an eighth; half of the sparse rates"},
    {"RTX 3070", "Laptop", 20.3, 20.3, 40.6, "NVIDIA Ampere GA104 whitepaper, 2021"},
    {"RTX 3080", "Laptop", 29.8, 29.8, 59.5, AMPERE_GA102},
    {"RTX 3090", "Laptop", 35.6, 35.6, 71, AMPERE_GA102},
    {"RTX 4080 SUPER", "Laptop", 52.2, 52.2, 104.4, ADA},
    {"RTX 4080", "Laptop", 48.7, 48.7, 97.5, ADA},
    {"RTX 4090", "Laptop", 82.6, 82.6, 165.2, ADA},
    {"RTX 5070", "Laptop", 30.9, 30.9, 61.7, BLACKWELL},
    {"RTX 5080", "Laptop", 56.3, 56.3, 112.6, BLACKWELL},
    {"RTX 5090", "Laptop", 104.8, 104.8, 209.5, BLACKWELL},
    {"MI210", NULL, 45.3, 0, 181, "AMD Instinct MI210 data sheet, 2022; matrix rates"},
    {"MI300X", NULL, 163.4, 653.7, 1307.4, "AMD Instinct MI300X data sheet, 2023; matrix rates"},
    {"RX 7900 XTX", NULL, 61.4, 0, 122.8, "AMD Radeon RX 7900 XTX, product page, 2022"},
    {"RX 7900 XT", NULL, 51.6, 0, 103.2, "AMD Radeon RX 7900 XT, product page, 2022"},
    {"A750", NULL, 17.2, 0, 137.6, "Intel Arc A750: 448 XMX units at 2.4 GHz, product page, 2022"},
    {"A770", NULL, 19.7, 0, 157.3, "Intel Arc A770: 512 XMX units at 2.4 GHz, product page, 2022"},
    {"B580", NULL, 13.7, 0, 109.4, "Intel Arc B580: 160 XMX units at 2.67 GHz, product page, 2024"},
};

// FLOP a cycle and core in fp32; bf16 is a multiple where there are instructions for it.
static const struct {
    const char *maker; // a word of the processor's name; NULL: any
    const char *isa;
    double fp32, bf16;
} widths[] = {
    {"AMD", "avx2", 32, 32},        {"AMD", "avx512_bf16", 32, 64}, {"Intel", "avx2", 32, 32},
    {"Xeon", "avx512", 64, 64},     {"Xeon", "amx", 64, 2048},      {"Neoverse-V", "neon_bf16", 32, 128},
    {"Neoverse-N", "neon", 16, 16},
};

const sm_datasheet *sm_datasheet_at(int index) {
    return index < (int)(sizeof(lines) / sizeof(lines[0])) ? &lines[index] : NULL;
}

// Whether a name has this word, which no letter or digit continues: "A100" is not "A1000".
static bool has_words(const char *name, const char *words) {
    for (const char *at = strstr(name, words); at != NULL; at = strstr(at + 1, words)) {
        const char after = at[strlen(words)];
        const bool begins = at == name || strchr(" -)", at[-1]) != NULL;
        if (begins && (after == '\0' || strchr(" -(,", after) != NULL)) {
            return true;
        }
    }
    return false;
}

static bool is_one_of(const char *word, const char *list) { return strstr(list, word) != NULL; }

double sm_datasheet_card(const char *name, const char *precision, char source[SM_DATASHEET_SOURCE_SIZE]) {
    source[0] = '\0';
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const sm_datasheet *line = &lines[i];
        if (!has_words(name, line->name) || (line->unlike != NULL && has_words(name, line->unlike))) {
            continue;
        }
        const double rate = strcmp(precision, "fp32") == 0      ? line->fp32
                            : strcmp(precision, "tf32") == 0    ? line->tf32
                            : is_one_of(precision, "bf16 fp16") ? line->bf16
                                                                : 0;
        snprintf(source, SM_DATASHEET_SOURCE_SIZE, "%s", rate > 0 ? line->source : "");
        return 1e12 * rate;
    }
    return 0;
}

double sm_datasheet_processor(const char *name, const char *isa, const char *precision, int n_cores, double clock_hz,
                              char source[SM_DATASHEET_SOURCE_SIZE]) {
    source[0] = '\0';
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]) && clock_hz > 0 && n_cores > 0; i++) {
        const double width = strcmp(precision, "fp32") == 0   ? widths[i].fp32
                             : strcmp(precision, "bf16") == 0 ? widths[i].bf16
                                                              : 0;
        if (strcmp(widths[i].isa, isa) == 0 && strstr(name, widths[i].maker) != NULL && width > 0) {
            snprintf(source, SM_DATASHEET_SOURCE_SIZE, "%d cores x %.2f GHz, the highest clock, x %.0f FLOP a cycle",
                     n_cores, clock_hz / 1e9, width);
            return n_cores * clock_hz * width;
        }
    }
    return 0;
}

double sm_datasheet_clock_hz(const char *root) {
    char line[64] = "";
    FILE *file = os_open_facts(root, "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    const bool is_read = file != NULL && fgets(line, sizeof(line), file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    return is_read ? 1000 * strtod(line, NULL) : 0;
}
