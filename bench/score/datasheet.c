#include "bench/score/score.h"

#include "bench/tables/show.h"
#include "os/os.h"

#include <ctype.h>
#include <math.h>

#define HOPPER    "NVIDIA H100 datasheet, 2023; half of the sparse rates"
#define AMPERE    "NVIDIA Ampere GA102 whitepaper, 2021; sums in fp32"
#define ADA       "NVIDIA Ada whitepaper, 2023; sums in fp32"
#define BLACKWELL "NVIDIA RTX Blackwell whitepaper, 2025; sums in fp32"

// Each line was compared with copies of its source in November 2026. A card for which none was found, or two that
// disagree (H100 NVL, H200 NVL), has no line.
static const sm_datasheet lines[] = {
    {"A100", false, 19.5, 156, 312, "NVIDIA A100 datasheet, 2021"},
    {"H100 PCIe", true, 51, 378, 756.5, HOPPER},
    {"H100 80GB HBM3", true, 66.9, 494.7, 989.4, HOPPER},
    {"H200", true, 66.9, 494.7, 989.4, "NVIDIA H200 datasheet, 2024; half of the sparse rates"},
    {"B200", true, 75, 1100, 2250, "NVIDIA HGX B200 datasheet, 2025; half of the sparse rates"},
    {"RTX 3070", true, 20.3, 20.3, 40.6, AMPERE},
    {"RTX 3080", true, 29.8, 29.8, 59.5, AMPERE},
    {"RTX 3090", true, 35.6, 35.6, 71, AMPERE},
    {"RTX 3090 Ti", true, 40, 40, 80, AMPERE},
    {"RTX 4070", true, 29.1, 29.1, 58.3, ADA},
    {"RTX 4080", true, 48.7, 48.7, 97.5, ADA},
    {"RTX 4090", true, 82.6, 82.6, 165.2, ADA},
    {"RTX 5070", true, 30.9, 30.9, 61.7, BLACKWELL},
    {"RTX 5070 Ti", true, 43.9, 43.9, 87.9, BLACKWELL},
    {"RTX 5080", true, 56.3, 56.3, 112.6, BLACKWELL},
    {"RTX 5090", true, 104.8, 104.8, 209.5, BLACKWELL},
    {"MI210", false, 45.3, 0, 181, "AMD Instinct MI210 data sheet, 2022; matrix rates"},
    {"MI300X", false, 0, 0, 1307.4, "AMD Instinct MI300X data sheet, 2023; matrix rates"},
    {"RX 7900 XTX", true, 61.4, 0, 122.8, "AMD Radeon RX 7900 XTX, product page, 2022"},
    {"RX 7900 XT", true, 51.6, 0, 103.2, "AMD Radeon RX 7900 XT, product page, 2022"},
    {"A750", false, 14.7, 0, 117.6, "Intel Arc A750: 448 XMX units at 2.05 GHz, product page, 2022"},
    {"A770", false, 17.2, 0, 137.6, "Intel Arc A770: 512 XMX units at 2.1 GHz, product page, 2022"},
    {"B580", false, 13.7, 0, 109.4, "Intel Arc B580: 160 XMX units at 2.67 GHz, product page, 2024"},
};

// FLOP a cycle and core in fp32; bf16 is a multiple where there are instructions for it.
static const struct {
    const char *word; // of the processor's name, or generation
    const char *isa;
    double fp32, bf16;
} widths[] = {
    {"(Zen)", "avx2", 16, 16},
    {"AMD", "avx2", 32, 32},
    {"(Zen 4)", "avx512_bf16", 32, 64},
    {"(Zen 5 mobile)", "avx512_bf16", 32, 64},
    {"(Zen 5)", "avx512_bf16", 64, 128},
    {"Intel", "avx2", 32, 32},
    {"(Ice Lake)", "avx512", 64, 64},
    {"Xeon", "amx", 64, 2048},
    {"Neoverse-V", "neon_bf16", 32, 128},
    {"Neoverse-N", "neon", 16, 16},
};
enum { N_WIDTHS = SM_COUNT(widths) };

const sm_datasheet *sm_datasheet_at(int index) { return index < (int)SM_COUNT(lines) ? &lines[index] : NULL; }

// Whether a name has these words, which no letter or digit continues: "A100" is not "A1000".
static bool has_words(const char *name, const char *words, bool ends) {
    for (const char *at = strstr(name, words); at != NULL; at = strstr(at + 1, words)) {
        const char after = at[strlen(words)];
        const bool begins = at == name || strchr(" -)", at[-1]) != NULL;
        if (begins && (after == '\0' || (!ends && strchr(" -(,", after) != NULL))) {
            return true;
        }
    }
    return false;
}

double sm_datasheet_card(const char *name, const char *precision, char source[SM_DATASHEET_SOURCE_SIZE]) {
    source[0] = '\0';
    for (size_t i = 0; i < SM_COUNT(lines); i++) {
        const sm_datasheet *line = &lines[i];
        if (!has_words(name, line->name, line->ends)) {
            continue;
        }
        const double rate = strcmp(precision, "fp32") == 0          ? line->fp32
                            : strcmp(precision, "tf32") == 0        ? line->tf32
                            : sm_is_word_of(precision, "bf16 fp16") ? line->bf16
                            : strcmp(precision, "fp8") == 0         ? 2 * line->bf16 // of all that have it
                                                                    : 0;
        snprintf(source, SM_DATASHEET_SOURCE_SIZE, "%s", rate > 0 ? line->source : "");
        return 1e12 * rate;
    }
    return 0;
}

static double width_of(int line, const char *precision) {
    return strcmp(precision, "fp32") == 0 ? widths[line].fp32 : strcmp(precision, "bf16") == 0 ? widths[line].bf16 : 0;
}

// FLOP a cycle and core of a name with its generation; 0: not known.
static double width_of_name(const char *name, const char *isa, const char *precision) {
    double width = 0;
    for (size_t i = 0; i < N_WIDTHS && width == 0; i++) {
        const bool is_it = strcmp(widths[i].isa, isa) == 0 && strstr(name, widths[i].word) != NULL;
        width = is_it ? width_of((int)i, precision) : 0;
    }
    return width;
}

double sm_datasheet_processor(const char *name, const char *isa, const char *precision, int n_cores, double clock_hz,
                              char source[SM_DATASHEET_SOURCE_SIZE]) {
    const double width = clock_hz > 0 && n_cores > 0 ? width_of_name(name, isa, precision) : 0;
    source[0] = '\0';
    if (width > 0) {
        snprintf(source, SM_DATASHEET_SOURCE_SIZE, "%d cores x %.2f GHz, the highest clock, x %.0f FLOP a cycle",
                 n_cores, clock_hz / 1e9, width);
    }
    return n_cores * clock_hz * width;
}

static bool lacks_isa(const char *name, const char *isa) {
    static const char *const lacking[][2] = {
        {"AMD", "amx"},        {"AMD", "neon"},          {"AMD", "sme"},         {"(Zen 1)", "avx512"},
        {"(Zen 2)", "avx512"}, {"(Zen 3)", "avx512"},    {"Intel", "neon"},      {"Intel", "sme"},
        {"Core", "amx"},       {"Core Ultra", "avx512"}, {"13th Gen", "avx512"}, {"14th Gen", "avx512"},
        {"Apple", "av"},       {"Neoverse", "av"},       {"Cortex", "av"},       {"Ampere", "av"},
    };
    bool found = false;
    for (size_t i = 0; i < SM_COUNT(lacking); i++) {
        found =
            found || (strstr(name, lacking[i][0]) != NULL && strncmp(isa, lacking[i][1], strlen(lacking[i][1])) == 0);
    }
    return found;
}

bool sm_datasheet_is_other(const char *name, const char *isa, const char *precision, int n_threads, double n_cores,
                           double flops, char *text, size_t size_bytes) {
    const char *number = strstr(name, "EPYC "); // whose last digit is the generation
    const char *core = strstr(name, "-Core");
    const char *digits = core;
    char whole[160];
    const bool is_told = number != NULL && strlen(number) > 8 && isdigit((unsigned char)number[5]);
    const bool is_server = strstr(name, "EPYC") != NULL || strstr(name, "Xeon") != NULL;
    const double clock_hz = is_server ? 5.8e9 : 6.5e9; // above those of November 2026
    snprintf(whole, sizeof(whole), "%.128s", name);
    if (is_told) {
        sm_append(whole, sizeof(whole), " (Zen %c)", number[8]);
    }
    double width = width_of_name(whole, isa, precision);
    for (size_t i = 0; i < N_WIDTHS && width_of_name(whole, isa, precision) == 0; i++) {
        const bool may_be = isa[0] == '\0' || strcmp(widths[i].isa, isa) == 0;
        width = may_be ? fmax(width, width_of((int)i, precision)) : width;
    }
    while (digits > name && isdigit((unsigned char)digits[-1])) {
        digits--;
    }
    const double most_cores = digits < core ? 2 * strtod(digits, NULL) : INFINITY; // of two sockets
    const double most = n_threads * clock_hz * width;
    text[0] = '\0';
    if (lacks_isa(whole, isa)) {
        snprintf(text, size_bytes, "its kernels are of %s, which %s does not have", isa, name);
    } else if (n_cores > most_cores) {
        snprintf(text, size_bytes, "its machine has %.0f cores, and two of %s have %.0f", n_cores, name, most_cores);
    } else if (most > 0 && flops > most) {
        snprintf(text, size_bytes, "it computes %.3g FLOP/s, and %d cores of %s %.3g at most", flops, n_threads, name,
                 most);
    }
    return text[0] != '\0';
}

double sm_datasheet_clock_hz(const char *root) {
    char line[64];
    const char *path = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
    return os_read_line(root, path, line, sizeof(line)) ? 1000 * strtod(line, NULL) : 0;
}
