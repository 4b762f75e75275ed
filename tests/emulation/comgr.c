// comgr.c: OpenCL C to AMD's assembly by libamd_comgr, by the actions that ROCm's clBuildProgram runs, in their order;
// no card is needed. Usage: comgr TARGET TO "OPTIONS" SOURCE
#include <amd_comgr/amd_comgr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE, WITH_HEADERS, BITCODE, LINKED, ASSEMBLY, N_SETS, MOST_OPTIONS = 40, MOST_BYTES = 1 << 20 };

static void write_first(amd_comgr_data_set_t set, amd_comgr_data_kind_t kind, FILE *to) {
    amd_comgr_data_t data;
    size_t n = 0;
    if (to == NULL || amd_comgr_action_data_get_data(set, kind, 0, &data) != AMD_COMGR_STATUS_SUCCESS) {
        return;
    }
    amd_comgr_get_data(data, &n, NULL);
    char *bytes = malloc(n + 1);
    if (bytes != NULL && amd_comgr_get_data(data, &n, bytes) == AMD_COMGR_STATUS_SUCCESS) {
        fwrite(bytes, 1, n, to);
    }
    free(bytes);
}

int main(int argc, char **argv) {
    static char text[MOST_BYTES];
    static const char *late[] = {"-O3"};
    const char *options[MOST_OPTIONS];
    size_t n_options = 0;
    char isa[64];
    FILE *f = argc == 5 ? fopen(argv[4], "rb") : NULL;
    if (f == NULL) {
        fprintf(stderr, "usage: comgr TARGET TO OPTIONS SOURCE\n");
        return 2;
    }
    const size_t n_bytes = fread(text, 1, sizeof text, f);
    fclose(f);
    for (char *o = strtok(argv[3], " "); o != NULL && n_options < MOST_OPTIONS; o = strtok(NULL, " ")) {
        options[n_options++] = o;
    }
    amd_comgr_data_t source;
    amd_comgr_data_set_t sets[N_SETS];
    amd_comgr_action_info_t action;
    for (int i = 0; i < N_SETS; i++) {
        amd_comgr_create_data_set(&sets[i]);
    }
    snprintf(isa, sizeof isa, "amdgcn-amd-amdhsa--%s", argv[1]);
    amd_comgr_create_data(AMD_COMGR_DATA_KIND_SOURCE, &source);
    amd_comgr_set_data(source, n_bytes, text);
    amd_comgr_set_data_name(source, "kernels.cl");
    amd_comgr_data_set_add(sets[SOURCE], source);
    amd_comgr_create_action_info(&action);
    amd_comgr_action_info_set_language(action, AMD_COMGR_LANGUAGE_OPENCL_1_2);
    if (amd_comgr_action_info_set_isa_name(action, isa) != AMD_COMGR_STATUS_SUCCESS) {
        fprintf(stderr, "comgr: error: it does not know %s\n", isa);
        return 1;
    }
    amd_comgr_action_info_set_option_list(action, options, n_options);
    amd_comgr_action_info_set_logging(action, 1);
    static const amd_comgr_action_kind_t kinds[] = {
        AMD_COMGR_ACTION_ADD_PRECOMPILED_HEADERS, AMD_COMGR_ACTION_COMPILE_SOURCE_WITH_DEVICE_LIBS_TO_BC,
        AMD_COMGR_ACTION_LINK_BC_TO_BC, AMD_COMGR_ACTION_CODEGEN_BC_TO_ASSEMBLY};
    for (int i = 0; i < N_SETS - 1; i++) {
        if (i == LINKED - 1) {
            amd_comgr_action_info_set_option_list(action, late, 1);
        }
        if (amd_comgr_do_action(kinds[i], action, sets[i], sets[i + 1]) != AMD_COMGR_STATUS_SUCCESS) {
            write_first(sets[i + 1], AMD_COMGR_DATA_KIND_LOG, stderr);
            return 1;
        }
    }
    f = fopen(argv[2], "wb");
    write_first(sets[ASSEMBLY], AMD_COMGR_DATA_KIND_SOURCE, f);
    return f == NULL || fclose(f) != 0;
}
