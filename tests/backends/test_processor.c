// test_processor.c: names and features of processors, from what Linux reports.
#include "os/processor.h"
#include "tests/support/temp_folder.h"

// A machine of this /proc/cpuinfo and, unless NULL, of this board.
static char *make_machine(const char *cpuinfo, const char *board) {
    static int n;
    temp_put_text(textf("machine%d/proc/cpuinfo", ++n), cpuinfo);
    if (board != NULL) {
        temp_put(textf("machine%d/proc/device-tree/model", n), board, strlen(board) + 1);
    }
    return temp_path(textf("machine%d", n));
}

static void expect_name(const char *cpuinfo, const char *board, const char *expected) {
    char name[256];
    const char *root = make_machine(cpuinfo, board);
    os_processor_name(root, name, sizeof name);
    assert_string_equal(name, expected);
    os_processor_name(root, name, 8); // cut, not overrun
    assert_int_equal(strlen(name), 7);
}

static void expect_features(const char *cpuinfo, const char *expected) {
    char words[512];
    const char *root = make_machine(cpuinfo, NULL);
    assert_int_equal(os_processor_features(root, words, sizeof words), expected != NULL);
    assert_string_equal(expected != NULL ? words : "", expected != NULL ? expected : "");
}

#define ARM(n, implementer, variant, part, revision)                                                           \
    "processor\t: " #n "\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd i8mm bf16\nCPU implementer\t: " implementer \
    "\nCPU architecture: 8\nCPU variant\t: " variant "\nCPU part\t: " part "\nCPU revision\t: " revision "\n\n"

// AMD's processors fill their names with blanks.
TEST(test_x86_says_its_name) {
    static const char cpuinfo[] = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n"
                                  "model name\t: AMD EPYC 7763 64-Core Processor                \ncpu MHz\t\t: 2445.4\n"
                                  "flags\t\t: fpu sse4_2 avx2 fma hypervisor\n\n"
                                  "processor\t: 1\nmodel name\t: AMD EPYC 7763 64-Core Processor                \n\n";
    expect_name(cpuinfo, NULL, "AMD EPYC 7763 64-Core Processor");
    expect_features(cpuinfo, "fpu sse4_2 avx2 fma hypervisor");
}

// Hypervisors give names without a model; a clock is none.
TEST(test_x86_without_a_model_has_a_generation) {
    static const char *const machines[][4] = {{"AuthenticAMD", "26", "2", "AMD EPYC"},
                                              {"AuthenticAMD", "25", "17", "AMD EPYC"},
                                              {"GenuineIntel", "6", "143", "Intel(R) Xeon(R) CPU @ 2.20GHz"},
                                              {"GenuineIntel", "6", "9", "Intel(R) Xeon(R) Processor"}};
    static const char *const generations[] = {"Zen 5", "Zen 4", "Sapphire Rapids", ""};
    for (int i = 0; i < 4; i++) {
        char found[32];
        const char *const *m = machines[i];
        const char *cpuinfo =
            textf("processor\t: 0\nvendor_id\t: %s\ncpu family\t: %s\nmodel\t\t: %s\nmodel name\t: %s\n", m[0], m[1],
                  m[2], m[3]);
        expect_name(cpuinfo, NULL, textf(generations[i][0] != '\0' ? "%s (%s)" : "%s", m[3], generations[i]));
        const char *root = make_machine(cpuinfo, NULL);
        os_processor_generation(root, found, sizeof found);
        assert_string_equal(found, generations[i]);
    }
}

TEST(test_arm_by_implementer_and_part) {
    static const char one[] = ARM(0, "0x41", "0x1", "0xd40", "1") ARM(1, "0x41", "0x1", "0xd40", "1");
    expect_name(one, NULL, "Arm Neoverse-V1 r1p1");
    expect_features(one, "fp asimd i8mm bf16");
    expect_name(ARM(0, "0x41", "0x0", "0xd08", "3"), "Raspberry Pi 4 Model B Rev 1.4",
                "Raspberry Pi 4 Model B Rev 1.4: Arm Cortex-A72 r0p3");
    expect_name(ARM(0, "0x61", "0x1", "0x022", "1") ARM(1, "0x61", "0x1", "0x023", "1"), "Apple MacBook Air (M1, 2020)",
                "Apple MacBook Air (M1, 2020): 1 Apple M1 Icestorm r1p1, 1 Apple M1 Firestorm r1p1");
    expect_name(ARM(0, "0x46", "0x1", "0x001", "0"), NULL, "Fujitsu A64FX r1p0");
}

// Parts and implementers that come later have numbers.
TEST(test_unknown_arm_is_told_apart) {
    expect_name(ARM(0, "0x41", "0x2", "0xfff", "1"), NULL, "Arm part 0xfff r2p1");
    expect_name(ARM(0, "0x99", "0x0", "0xd0c", "1"), NULL, "implementer 0x99 part 0xd0c r0p1");
}

// A kernel that runs 32-bit programs adds a name that says nothing.
TEST(test_arm_name_of_old_kernels_is_left_out) {
    expect_name("processor\t: 0\nmodel name\t: ARMv8 Processor rev 3 (v8l)\nCPU implementer\t: 0x41\n"
                "CPU variant\t: 0x0\nCPU part\t: 0xd03\nCPU revision\t: 4\n",
                NULL, "Arm Cortex-A53 r0p4");
}

TEST(test_riscv_by_core_and_isa) {
    expect_name("processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc_zicntr_zba\nmmu\t\t: sv39\nuarch\t\t: sifive,u74-mc\n"
                "mvendorid\t: 0x489\nmarchid\t\t: 0x8000000000000007\nmimpid\t\t: 0x4210427\n\n",
                "StarFive VisionFive 2 v1.3B", "StarFive VisionFive 2 v1.3B: sifive,u74-mc rv64imafdc");
    expect_name("processor\t: 0\nisa\t\t: rv64imafdcv_zicbom\nmvendorid\t: 0x710\nmarchid\t\t: 0x8000000058000001\n"
                "mimpid\t\t: 0x1000000049772200\n",
                NULL,
                "RISC-V rv64imafdcv vendor 0x710 architecture 0x8000000058000001 implementation 0x1000000049772200");
    expect_name("processor\t: 0\nisa\t\t: rv64imafdc_zicsr\nmvendorid\t: 0x0\nmarchid\t\t: 0x0\n", NULL,
                "RISC-V rv64imafdc");
    expect_features("processor\t: 0\nisa\t\t: rv64imafdcvh_zicsr_zvl128b\n", "rv64imafdcvh v zicsr zvl128b");
    expect_features("processor\t: 0\nisa\t\t: rv64imafdc\n", "rv64imafdc");
}

TEST(test_others) {
    expect_name("processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 2300.000000MHz\n", NULL,
                "POWER9, altivec supported");
    expect_name("system type\t: generic\n\nprocessor\t\t: 0\nModel Name\t\t: Loongson-3A5000\n", NULL,
                "Loongson-3A5000");
    expect_features("processor\t: 0\n", NULL);
    char name[64];
    os_processor_name("/nowhere", name, sizeof name);
    assert_true(strncmp(name, "unknown ", 8) == 0);
}
