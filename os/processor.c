// processor.c: x86-64 processors contain their names. For 64-bit Arm, Linux reports numbers of the register MIDR_EL1,
// for RISC-V the firmware's name; and boards have a name in the device tree.
#include "os/processor.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/utsname.h>

#include "os/os.h"
#include "status.h"

enum { TEXT_SIZE = 160, LINE_SIZE = 8192, MAX_KINDS = 8 };

// --- 64-bit Arm ------------------------------------------------------------------------------------

// Implementers and their parts ("d03 Cortex-A53, ..."), by the register's numbers (the technical reference manuals, and
// Linux's own table).
static const struct {
    int implementer;
    const char *name, *parts;
} implementers[] = {
    {0x41, "Arm",
     "d03 Cortex-A53, d04 Cortex-A35, d05 Cortex-A55, d07 Cortex-A57, d08 Cortex-A72, d09 Cortex-A73, d0a "
     "Cortex-A75, d0b Cortex-A76, d0c Neoverse-N1, d0d Cortex-A77, d0e Cortex-A76AE, d40 Neoverse-V1, d41 "
     "Cortex-A78, d42 Cortex-A78AE, d44 Cortex-X1, d46 Cortex-A510, d47 Cortex-A710, d48 Cortex-X2, d49 "
     "Neoverse-N2, d4a Neoverse-E1, d4b Cortex-A78C, d4c Cortex-X1C, d4d Cortex-A715, d4e Cortex-X3, d4f "
     "Neoverse-V2, d80 Cortex-A520, d81 Cortex-A720, d82 Cortex-X4, d83 Neoverse-V3AE, d84 Neoverse-V3, "
     "d85 Cortex-X925, d87 Cortex-A725, d8e Neoverse-N3"},
    {0x42, "Broadcom", "516 Vulcan"},
    {0x43, "Cavium", "0a1 ThunderX, 0af ThunderX2"},
    {0x46, "Fujitsu", "001 A64FX"},
    {0x48, "HiSilicon", "d01 TaiShan-v110"},
    {0x4e, "NVIDIA", "004 Carmel"},
    {0x50, "APM", "000 X-Gene"},
    {0x51, "Qualcomm", "001 Oryon, c00 Falkor, 802 Kryo-3XX-Gold, 804 Kryo-4XX-Gold, 805 Kryo-4XX-Silver"},
    {0x53, "Samsung", ""},
    {0x56, "Marvell", ""},
    {0x61, "Apple",
     "022 M1 Icestorm, 023 M1 Firestorm, 024 M1 Pro Icestorm, 025 M1 Pro Firestorm, 028 M1 Max Icestorm, "
     "029 M1 Max Firestorm, 032 M2 Blizzard, 033 M2 Avalanche"},
    {0x69, "Intel", ""},
    {0x6d, "Microsoft", "d49 Cobalt-100"},
    {0x70, "Phytium", ""},
    {0xc0, "Ampere", "ac3 Ampere-1, ac4 Ampere-1A"},
};

// --- x86-64 ----------------------------------------------------------------------------------------

// Cores by vendor, family and model (the makers' processor programming references, and Linux's own tables).
static const struct {
    const char *vendor;
    int family, first, last;
    const char *name;
} generations[] = {
    {"AuthenticAMD", 23, 0x00, 0x2f, "Zen"},         {"AuthenticAMD", 23, 0x30, 0xff, "Zen 2"},
    {"AuthenticAMD", 25, 0x00, 0x0f, "Zen 3"},       {"AuthenticAMD", 25, 0x10, 0x1f, "Zen 4"},
    {"AuthenticAMD", 25, 0x20, 0x5f, "Zen 3"},       {"AuthenticAMD", 25, 0x60, 0xaf, "Zen 4"},
    {"AuthenticAMD", 26, 0x00, 0x1f, "Zen 5"},       {"AuthenticAMD", 26, 0x20, 0x3f, "Zen 5 mobile"},
    {"AuthenticAMD", 26, 0x40, 0x4f, "Zen 5"},       {"GenuineIntel", 6, 85, 85, "Skylake or Cascade Lake"},
    {"GenuineIntel", 6, 106, 106, "Ice Lake"},       {"GenuineIntel", 6, 143, 143, "Sapphire Rapids"},
    {"GenuineIntel", 6, 173, 173, "Granite Rapids"}, {"GenuineIntel", 6, 207, 207, "Emerald Rapids"},
};

// Fields of one processor, one from each line; "" if absent.
typedef struct {
    char model[TEXT_SIZE];
    char maker[32], family[16], number[16];
    char implementer[16], part[16], variant[16], revision[16];
    char isa[LINE_SIZE], core[TEXT_SIZE], vendor[32], architecture[32], implementation[32];
} facts;

static const struct {
    const char *key;
    size_t offset, size_bytes;
} keys[] = {
#define KEY(key, field) \
    { key, offsetof(facts, field), sizeof((facts *)NULL)->field }
    KEY("model name", model),
    KEY("Model Name", model), // for LoongArch
    KEY("cpu", model),        // for POWER
    KEY("vendor_id", maker),
    KEY("cpu family", family),
    KEY("model", number),
    KEY("CPU implementer", implementer),
    KEY("CPU part", part),
    KEY("CPU variant", variant),
    KEY("CPU revision", revision),
    KEY("isa", isa),
    KEY("uarch", core),
    KEY("mvendorid", vendor),
    KEY("marchid", architecture),
    KEY("mimpid", implementation),
#undef KEY
};

static const char *generation_of(const facts *f) {
    const long family = strtol(f->family, NULL, 10);
    const long number = strtol(f->number, NULL, 10);
    for (size_t i = 0; i < sizeof generations / sizeof generations[0]; i++) {
        if (strcmp(generations[i].vendor, f->maker) == 0 && generations[i].family == family &&
            generations[i].first <= number && number <= generations[i].last) {
            return generations[i].name;
        }
    }
    return "";
}

// Hypervisors hide a processor's model, "AMD EPYC": then its generation is told.
static void describe_x86(const facts *f, char text[TEXT_SIZE]) {
    const char *generation = generation_of(f);
    const bool is_hidden = strcspn(f->model, "0123456789") >= strcspn(f->model, "@");
    const bool is_told = is_hidden && generation[0] != '\0';
    snprintf(text, TEXT_SIZE, "%.120s%s%s%s", f->model, is_told ? " (" : "", is_told ? generation : "",
             is_told ? ")" : "");
}

static void describe_arm(const facts *f, char text[TEXT_SIZE]) {
    char maker[32], name[32], number[16];
    snprintf(maker, sizeof maker, "implementer %s", f->implementer);
    snprintf(name, sizeof name, "part %s", f->part);
    snprintf(number, sizeof number, "%03lx ", strtol(f->part, NULL, 0));
    for (size_t i = 0; i < sizeof implementers / sizeof implementers[0]; i++) {
        if (implementers[i].implementer == strtol(f->implementer, NULL, 0)) {
            const char *part = strstr(implementers[i].parts, number);
            snprintf(maker, sizeof maker, "%s", implementers[i].name);
            if (part != NULL) {
                part += strlen(number);
                snprintf(name, sizeof name, "%.*s", (int)strcspn(part, ","), part);
            }
        }
    }
    snprintf(text, TEXT_SIZE, "%s %s r%ldp%ld", maker, name, strtol(f->variant, NULL, 0), strtol(f->revision, NULL, 0));
}

static bool is_nonzero(const char *number) { return number[0] != '\0' && strtoull(number, NULL, 0) != 0; }

// Only the base: dozens of extensions follow it.
static void describe_riscv(const facts *f, char text[TEXT_SIZE]) {
    const int base = (int)strcspn(f->isa, "_ ");
    if (f->core[0] != '\0') {
        snprintf(text, TEXT_SIZE, "%.100s %.*s", f->core, base, f->isa);
    } else if (is_nonzero(f->vendor) || is_nonzero(f->architecture)) {
        snprintf(text, TEXT_SIZE, "RISC-V %.*s vendor %s architecture %s implementation %s", base, f->isa, f->vendor,
                 f->architecture, f->implementation);
    } else {
        snprintf(text, TEXT_SIZE, "RISC-V %.*s", base, f->isa);
    }
}

// --- /proc/cpuinfo ---------------------------------------------------------------------------------

typedef struct {
    char text[TEXT_SIZE];
    int n;
} kind;

typedef struct {
    kind list[MAX_KINDS];
    int n;
} kinds;

static void add(kinds *all, const facts *f) {
    char text[TEXT_SIZE] = "";
    if (f->part[0] != '\0') {
        describe_arm(f, text);
    } else if (f->isa[0] != '\0') {
        describe_riscv(f, text);
    } else {
        describe_x86(f, text);
    }
    int i = 0;
    while (i < all->n && strcmp(all->list[i].text, text) != 0) {
        i++;
    }
    if (text[0] == '\0' || i == MAX_KINDS) {
        return;
    }
    if (i == all->n) {
        memcpy(all->list[all->n++].text, text, sizeof text);
    }
    all->list[i].n++;
}

// Some names end in many blanks.
static void copy_trimmed(const char *text, char *copy, size_t size_bytes) {
    text += strspn(text, " \t");
    size_t length = strcspn(text, "\n");
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) {
        length--;
    }
    snprintf(copy, size_bytes, "%.*s", (int)length, text);
}

// The text after `key` and a colon; NULL: another line.
static const char *value_of(const char *line, const char *key) {
    const size_t length = strlen(key);
    const char *rest = line + length;
    if (strncmp(line, key, length) != 0) {
        return NULL;
    }
    rest += strspn(rest, " \t");
    return *rest == ':' ? rest + 1 : NULL;
}

bool os_read_line(const char *root, const char *path, char *line, size_t size_bytes) {
    SM_OWN(FILE) *file = os_open_facts(root, path);
    errno = file != NULL ? 0 : errno;
    const bool is_found = file != NULL && fgets(line, (int)size_bytes, file) != NULL;
    errno = errno != 0 ? errno : ENODATA;
    line[is_found ? strcspn(line, "\n") : 0] = '\0';
    return is_found;
}

bool os_read_count(const char *root, const char *path, const char *key, uint64_t *value) {
    char line[256];
    SM_OWN(FILE) *file = os_open_facts(root, path);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%" SCNu64, value) == 1) {
            return true;
        }
    }
    return false;
}

bool os_read_fact(const char *root, const char *path, const char *key, char *value, size_t size_bytes) {
    char line[LINE_SIZE];
    SM_OWN(FILE) *file = os_open_facts(root, path);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *found = value_of(line, key);
        if (found != NULL) {
            copy_trimmed(found, value, size_bytes);
            return true;
        }
    }
    return false;
}

// Each processor has a paragraph, which begins with "processor".
static void read_kinds(const char *root, kinds *all) {
    SM_OWN(FILE) *file = os_open_facts(root, "/proc/cpuinfo");
    char line[LINE_SIZE];
    facts f = {0};
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (value_of(line, "processor") != NULL) {
            add(all, &f);
            f = (facts){0};
        }
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            const char *value = value_of(line, keys[i].key);
            if (value != NULL) {
                copy_trimmed(value, (char *)&f + keys[i].offset, keys[i].size_bytes);
            }
        }
    }
    add(all, &f);
}

void os_processor_name(const char *root, char *name, size_t size_bytes) {
    kinds all = {0};
    char board[TEXT_SIZE], text[TEXT_SIZE * (MAX_KINDS + 2)] = "";
    struct utsname system;
    read_kinds(root, &all);
    os_read_line(root, "/proc/device-tree/model", board, sizeof board); // "Raspberry Pi 5 Model B Rev 1.0"
    size_t used = (size_t)snprintf(text, sizeof text, "%s%s", board, board[0] != '\0' && all.n > 0 ? ": " : "");
    for (int i = 0; i < all.n; i++) {
        char count[16] = "";
        if (all.n > 1) {
            snprintf(count, sizeof count, "%d ", all.list[i].n);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s", i > 0 ? ", " : "", count, all.list[i].text);
    }
    if (text[0] == '\0') {
        snprintf(text, sizeof text, "unknown %s processor", uname(&system) == 0 ? system.machine : "");
    }
    snprintf(name, size_bytes, "%s", text);
}

void os_processor_generation(const char *root, char *text, size_t size_bytes) {
    static const char path[] = "/proc/cpuinfo";
    facts f = {0};
    os_read_fact(root, path, "vendor_id", f.maker, sizeof f.maker);
    os_read_fact(root, path, "cpu family", f.family, sizeof f.family);
    os_read_fact(root, path, "model", f.number, sizeof f.number);
    snprintf(text, size_bytes, "%s", generation_of(&f));
}

bool os_processor_features(const char *root, char *words, size_t size_bytes) {
    static const char path[] = "/proc/cpuinfo";
    char isa[LINE_SIZE];
    if (os_read_fact(root, path, "flags", words, size_bytes) ||
        os_read_fact(root, path, "Features", words, size_bytes)) {
        return true;
    }
    if (!os_read_fact(root, path, "isa", isa, sizeof isa)) {
        return false;
    }
    const size_t base = strcspn(isa, "_ "); // then each extension separately: "rv64imafdcv_zicsr" has V
    const bool has_v = base > 4 && memchr(isa + 4, 'v', base - 4) != NULL;
    snprintf(words, size_bytes, "%.*s%s%s", (int)base, isa, has_v ? " v" : "", isa + base);
    for (char *p = words; *p != '\0'; p++) {
        *p = (char)(*p == '_' ? ' ' : *p);
    }
    return true;
}
