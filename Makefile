# stepmark: how fast does a GPT-2 training step run on this machine, and why?
#
# Each configuration has its own build folder: build/release, build/dev, build/asan, build/clang, build/fuzz,
# build/tsan, build/mpi; with another target processor in its name: `make CC=aarch64-linux-gnu-gcc` builds
# build/release-aarch64. `make` shows help.

# Targets that install: which sets of tools/deps.sh (SET?: the others do without). They are installed here, before the
# Makefile asks this machine for anything else.
installs = $(foreach target,$(1),$(eval SETS_$(target) := $(2)))
$(call installs,deps bench results,run)
$(call installs,mpi,run mpi)
$(call installs,fuzz prove test-peers peers bench-peers opencl-with test-pages,run dev)
$(call installs,deps-dev test,run dev mpi browser?)
$(call installs,deps-torture torture,run dev mpi torture cross-arm64?)
$(call installs,wasm,run wasm)
$(call installs,test-slurm,run dev slurm)
$(call installs,deps-package,package)
$(call installs,deb test-deb tarball wheel test-reproducible,run package)
$(call installs,dist,run package wasm? elsewhere? cross-arm64?)
SETS := $(sort $(foreach goal,$(MAKECMDGOALS),$(SETS_$(goal))))
ifneq ($(if $(findstring n,$(firstword -$(MAKEFLAGS))),,$(SETS)),) # not for make -n
LACKING := $(shell tools/deps.sh $(SETS) || echo "(tools/deps.sh)")
$(if $(LACKING),$(error $(LACKING)))
endif

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
CONFIG ?= release

CC_release := gcc
CC_asan := gcc
CC_clang := clang
CC_fuzz := clang
CC_tsan := clang
CC_mpi := gcc
CC_dev := gcc
ifeq ($(origin CC),default)
CC := $(CC_$(CONFIG))
endif
# The target processor, and whether it differs from this machine's.
TARGET := $(shell $(CC) -dumpmachine 2>/dev/null)
TARGET_ARCH := $(firstword $(subst -, ,$(TARGET)))
NEED_NO_COMPILER := help format check-deps peers clean deps deps-dev deps-torture deps-package
ifeq ($(TARGET),)
$(if $(filter-out $(NEED_NO_COMPILER),$(MAKECMDGOALS)),$(error $(CC) is not installed or does not run: "make deps" \
    installs what the program needs, "make deps-dev" also what tests and other configurations need))
endif
# Commands and headers without which other targets would fail in the middle.
NEEDS_check := cmocka.h $(if $(T),,git clang)
NEEDS_format := git clang-format
NEEDS_tidy := clang-tidy
NEEDS_check-deps := git
NEEDS_check-cl := clang
NEEDS := $(foreach goal,$(MAKECMDGOALS),$(NEEDS_$(goal)))
ABSENT := $(if $(NEEDS),$(shell for need in $(NEEDS); do case $$need in (*.h) $(CC) -E -include $$need -x c /dev/null ;; \
    (*) command -v $$need ;; esac >/dev/null 2>&1 || echo $$need; done))
$(if $(ABSENT),$(error $(firstword $(ABSENT)) is not there: "make deps-dev" installs what tests and checks need))
FOREIGN := $(filter-out $(shell uname -m),$(TARGET_ARCH))
# The part of os/ to build. OS=posix: as on a Unix other than Linux.
OS := $(or $(findstring linux,$(TARGET)),$(if $(findstring mingw,$(TARGET)),windows),$(findstring macos,$(TARGET)),posix)
# OPENCL=0 builds without the opencl backend; it is the default if OpenCL's headers are missing. Building needs only the
# headers: the program looks for the loader at run time.
HAS_OPENCL := $(if $(filter windows macos,$(OS)),1,$(shell echo '\#include <CL/cl.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo 1 || echo 0))
OPENCL ?= $(HAS_OPENCL)
IS_CLANG := $(or $(findstring clang,$(CC)),$(findstring ziglang,$(CC)))
B := build/$(CONFIG)$(FOREIGN:%=-%)$(if $(filter-out linux,$(OS)),-$(OS))$(if $(filter 0,$(OPENCL)),-without-opencl)

WARNINGS := -Wall -Wextra -Wpedantic -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef
# The table of kernels replaces rows; a pragma for it is lost where clang reads many files in one process.
WARNINGS += $(if $(IS_CLANG),-Wno-initializer-overrides)
INCLUDES := -Iinclude -I.
# asan's reports need lines, no more: that takes a third less time to compile.
OPTIMISE_asan := -Og -g1 -DXXH_NO_INLINE_HINTS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# fuzz: millions of inputs, chosen by code coverage; tsan: data races between threads.
OPTIMISE_fuzz := -O1 -g -DENCODER_KEPT=256 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPTIMISE_tsan := -O1 -g -fsanitize=thread
OPTIMISE_clang := -O0
# For development: a clean build within a minute, with all that debuggers show. Kernels are optimised a little; with less
# inlining gcc cannot tell that some variables are always set.
OPTIMISE_dev := -O0 -g
KERNEL_OPTIMISE_dev := -Og -g1 -Wno-maybe-uninitialized
# Debuggers get lines of optimised code: its variables are seldom there, and take a sixth of the time to compile.
OPTIMISE := $(or $(OPTIMISE_$(CONFIG)),-O2 -g1)
BASE_FLAGS := -std=c11 -D_GNU_SOURCE $(WARNINGS) -fopenmp $(OPTIMISE)
# The reference's loops are half of what tests under sanitizers wait for: outside of the long tests they are optimised
# as in the release build, and their addresses checked alone.
REF_OPTIMISE_asan := $(if $(STEPMARK_TEST_ALL),,-O3 -fno-sanitize=undefined)
# No path of this machine in the program.
MAP_PATHS := -ffile-prefix-map='$(CURDIR)'=.
COMPILE = $(CC) $(BASE_FLAGS) $(MAP_PATHS) $(INCLUDES) -MMD -MP $(FILE_FLAGS) $(CFLAGS)
, := ,
SAY = @printf '  %-4s %s\n'
LIBS := -lhwloc -ljansson -lpcre2-8 -lz -lm -ldl

ifneq ($(OPENCL),0)
BASE_FLAGS += -DSM_OPENCL
endif

# Other systems: the libraries are built here, and linked into the program.
ifneq ($(filter windows macos,$(OS)),)
LIBRARIES := build/$(OS)-libraries$(if $(filter macos,$(OS)),-$(TARGET_ARCH))
$(shell tools/libraries.sh $(LIBRARIES) $(if $(filter macos,$(OS)),$(TARGET_ARCH)-apple-darwin,$(TARGET)) $(CC) >&2)
BASE_FLAGS += -isystem $(LIBRARIES)/include -DPCRE2_STATIC
endif
# Windows: POSIX's functions are in os/windows. GCC keeps the stack of 64-bit Windows aligned to 16 bytes alone, so moves
# of longer vectors may not assume more.
ifeq ($(OS),windows)
EXE := .exe
BASE_FLAGS += -isystem $(LIBRARIES)/posix -Wno-format -Wno-format-extra-args -Wno-unknown-pragmas -include os/windows/posix.h \
              -D_FILE_OFFSET_BITS=64 -D_WIN32_WINNT=0x0A00 -Wa,-muse-unaligned-vector-move
LIBS := -static -Wl,--no-insert-timestamp -L$(LIBRARIES)/lib $(filter-out -ldl,$(LIBS)) -lsynchronization -lshell32
endif
# macOS: OpenMP's functions are in os/macos.
ifeq ($(OS),macos)
BASE_FLAGS += -target $(TARGET_ARCH)-macos.11.0 -isystem os/macos -fno-sanitize=undefined -Wno-format-zero-length -D_DARWIN_C_SOURCE
LIBS := $(addprefix $(LIBRARIES)/lib/,libhwloc.a libjansson.a libpcre2-8.a libz.a)
endif

# CONFIG=mpi connects processes started by mpirun or srun. Only comm_mpi.c knows MPI.
ifeq ($(CONFIG),mpi)
BASE_FLAGS += -DSM_MPI
MPI_FLAGS := $(shell pkg-config --cflags ompi-c 2>/dev/null || pkg-config --cflags mpich 2>/dev/null)
LIBS += $(shell pkg-config --libs ompi-c 2>/dev/null || pkg-config --libs mpich 2>/dev/null)
endif

# The kernels' relaxations, by name: fused multiply-add, no errno from math functions, no traps.
# No -ffast-math: NaN and infinity keep their meaning.
# Sanitizers need no speed; fuzzers test parsers of files and flags, not kernels.
KERNEL_OPTIMISE_fuzz := -O1 -fno-sanitize=all -Wno-pass-failed
KERNEL_OPTIMISE_tsan := -Wno-pass-failed
KERNEL_FLAGS := $(if $(filter asan fuzz tsan dev,$(CONFIG)),$(KERNEL_OPTIMISE_$(CONFIG)),-O3 -g1) -ffp-contract=fast -fno-math-errno -fno-trapping-math

ISA_FLAGS_baseline :=
ISA_FLAGS_neon :=
ISA_FLAGS_neon_bf16 := $(if $(findstring ziglang,$(CC)),-mcpu=generic+bf16,-march=armv8.2-a+bf16)
ISA_FLAGS_sme := $(ISA_FLAGS_neon_bf16) -DCPU_SME=1
ISA_FLAGS_scalar :=
ISA_FLAGS_rvv128 := -march=rv64gcv -mno-relax
ISA_FLAGS_rvv256 := -march=rv64gcv_zvl256b -mno-relax
ISA_FLAGS_rvv512 := -march=rv64gcv_zvl512b -mno-relax
ISA_FLAGS_avx2 := -mavx2 -mfma -mf16c
ISA_FLAGS_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512
ISA_FLAGS_avx512_bf16 := $(ISA_FLAGS_avx512) -mavx512bf16
ISA_FLAGS_amx := $(ISA_FLAGS_avx512_bf16) -mamx-tile -mamx-bf16 -DCPU_AMX
# Whose kernels, of a type of data, an instruction set takes where it has none of its own.
CPU_BASE_amx_bf16 := -DCPU_BASE_ISA=avx512_bf16
CPU_BASE_amx_f32 := -DCPU_BASE_ISA=avx512
CPU_BASE_sme_bf16 := -DCPU_BASE_ISA=neon_bf16
CPU_BASE_sme_f32 := -DCPU_BASE_ISA=neon
# The instruction sets that there are kernels of: by default all, plainest first. avx512_bf16, amx and neon_bf16 have
# kernels of their own for bf16 data; amx takes from avx512_bf16 what it lacks, both take the rest from avx512,
# neon_bf16 from neon. sme has products alone, of floats, too, and takes the rest from these two.
ALL_ISAS_x86_64 := baseline avx2 avx512 avx512_bf16 amx
ALL_ISAS_aarch64 := neon neon_bf16 sme
# Compilers that make vectors of RISC-V's know version 0.12 of its intrinsics: GCC 14, Clang 18.
ALL_ISAS_riscv64 = scalar $(if $(shell echo '__riscv_v_intrinsic >= 12000' | $(CC) -march=rv64gcv -E -include /dev/null \
                   -P - 2>/dev/null | awk '$$1 >= 12000'),rvv128 rvv256 rvv512)
ALL_ISAS := $(or $(ALL_ISAS_$(TARGET_ARCH)),baseline)
# STEPMARK_TEST_ALL=1 (long tests): all of them, and every test under sanitizers.
ifeq ($(STEPMARK_TEST_ALL),)
ISAS_asan = $(shell tools/best_isa.sh $(CC))
ISAS_clang := $(if $(filter x86_64-%,$(TARGET)),amx)
# Tests of arithmetic and results run without sanitizers, which get small runs instead (tools/tests/small_runs.sh).
LEFT_OUT_asan := $(addprefix %/test_,$(addsuffix .c,advise again bf16 bf16_training cheats cli consistent cpu_math cpu_product cpu_split cpu_stream \
                 exercise golden gradient gradient_check op_rows opencl opencl_narrow optimizers recipe recompute run_outputs same_bits spot_check \
                 judge packaging tensor_attention verify course ladder walk))
endif
ISAS_dev = $(shell tools/best_isa.sh $(CC))
# GCC 12's AMX intrinsics make strides of 32 bits where `long` has 32: on Windows they do not assemble.
ISAS := $(filter-out $(if $(EXE),amx),$(or $(ISAS_$(CONFIG)),$(ALL_ISAS)))
override ISAS := $(filter $(ISAS) $(if $(filter amx,$(ISAS)),avx512_bf16) $(if $(filter sme,$(ISAS)),neon_bf16) $(if $(filter neon_bf16 sme,$(ISAS)),neon),$(ALL_ISAS))
F32_ISAS := $(filter baseline avx2 scalar rvv%,$(ISAS)) $(if $(filter avx512 avx512_bf16 amx,$(ISAS)),avx512) $(filter neon,$(ISAS))
BF16_ISAS := $(filter baseline avx2 avx512 neon scalar rvv%,$(ISAS))
DOT_ISAS := $(filter avx512_bf16 amx neon_bf16 sme,$(ISAS))

# --- sources -----------------------------------------------------------------------------------

# tree FOLDER,PATTERN: the files in a folder and its subfolders.
tree = $(wildcard $(1)/$(2) $(1)/*/$(2) $(1)/*/*/$(2))
OS_SRC := os/processor.c os/names.c $(if $(filter linux,$(OS)),,os/lacking.c) $(wildcard os/$(OS)/*.c) $(if $(filter posix macos,$(OS)),os/posix.c) $(if $(filter windows,$(OS)),,$(wildcard os/unix/*.c))
ENGINE_SRC := $(OS_SRC) $(filter-out $(if $(filter-out mpi,$(CONFIG)),src/comm/comm_mpi.c),$(call tree,src,*.c))
BENCH_SRC := $(call tree,bench,*.c)
LEARN_SRC := $(addprefix learn/live/,live.c edits.c tokens.c) $(call tree,learn/page,*.c) $(call tree,learn/exercise,*.c) $(call tree,learn/own_kernels,*.c) $(wildcard learn/ladder/*.c)
CLI_SRC := $(call tree,cli,*.c)
HOST_SRC := $(filter-out %/descriptors$(if $(findstring linux,$(TARGET)),_none).c,$(wildcard backends/host/*.c))
REF_KERNEL_SRC := $(call tree,backends/reference/kernels,*.c) backends/reference/run.c backends/reference/rounded.c
REF_SRC := backends/reference/reference.c
CPU_KERNEL_SRC := $(call tree,backends/cpu/kernels,*.c)
# cpu_kernels NAME...: the files with these names.
cpu_kernels = $(filter $(addprefix %/,$(addsuffix .c,$(1))),$(CPU_KERNEL_SRC))
# Of the cpu backend's kernels: those for float data only, and those of the instruction sets with bf16 arithmetic:
# avx512_bf16 also has its own kernels for all of bf16 data, amx for products and flash attention.
CPU_F32_SRC := $(call cpu_kernels,product product_blas peaks)
CPU_DOT_SRC_amx := $(call cpu_kernels,matmul table peaks_dot product_amx flash_attention_amx)
CPU_NARROW_SRC := $(call cpu_kernels,product_bf16)
# Of float data AMX has the products of bf16x6.
CPU_X6_SRC := $(if $(filter amx,$(DOT_ISAS)),$(call cpu_kernels,product_split matmul table))
CPU_DOT_ONLY_SRC := $(call cpu_kernels,product_amx product_split flash_attention_amx peaks_dot)
CPU_DOT_SRC_avx512_bf16 := $(filter-out $(CPU_F32_SRC) %_amx.c %_split.c,$(CPU_KERNEL_SRC))
CPU_DOT_SRC_neon_bf16 := $(CPU_DOT_SRC_avx512_bf16)
CPU_DOT_SRC_sme := $(call cpu_kernels,product_bf16 matmul table peaks_dot)
CPU_SME_F32_SRC := $(if $(filter sme,$(DOT_ISAS)),$(CPU_DOT_SRC_sme))
CPU_SRC := $(wildcard backends/cpu/*.c backends/cpu/threads/*.c)
OPENCL_SRC := $(if $(filter-out 0,$(OPENCL)),$(call tree,backends/opencl,*.c))
# The rungs of `stepmark ladder`: kernels as a user would bring them, for each instruction set.
RUNG_SRC := $(call tree,learn/ladder/rungs,*.c)
# The engine with the reference backend, as pages compute a step again; it is the same for every configuration.
WASM := build/wasm/live.wasm
WASM_SRC := $(wildcard learn/live/*.c os/none/*.c backends/reference/*.c src/optim/*.c src/rewrites/*.c) \
            $(addprefix src/tokenizer/,encoder.c pretokens.c tokenizer.c) \
            backends/host/memory.c src/session/session.c src/session/exchange.c $(call tree,backends/reference/kernels,*.c) $(call tree,src/models,*.c) \
            $(filter-out src/plan/own_%,$(wildcard src/plan/*.c))
# Files embedded in the program: the default training text, equations and sources for pages, OpenCL kernels, styles and
# scripts of pages, the ladder's sources, reference results.
EMBEDDED := $(sort src/io/text.txt docs/equations.md $(wildcard docs/course/[0-9]*.md) include/activation.h $(REF_KERNEL_SRC) $(CPU_KERNEL_SRC) $(call tree,cl,*.cl) \
            $(foreach kind,*.css *.js,$(call tree,bench,$(kind)) $(call tree,learn,$(kind))) \
            $(WASM) $(wildcard bench/results/*.bundle) learn/ladder/vector.h learn/ladder/vector_exp.h $(call tree,learn/ladder/rungs,*.[ch]))
TEST_SRC := $(filter-out $(LEFT_OUT_$(CONFIG)) $(if $(filter 0,$(OPENCL)),tests/backends/test_opencl.c tests/backends/test_collectives.c tests/backends/test_drivers.c tests/backends/test_tensor_attention.c),$(wildcard tests/*/test_*.c))

PLAIN_SRC := $(ENGINE_SRC) $(BENCH_SRC) $(LEARN_SRC) $(HOST_SRC) $(REF_SRC) $(CPU_SRC) $(OPENCL_SRC)
LIB_OBJ := $(PLAIN_SRC:%.c=$(B)/%.o) $(B)/embedded.o \
           $(foreach isa,$(F32_ISAS),$(RUNG_SRC:%.c=$(B)/%.$(isa).rung.o)) \
           $(foreach real,f32 f64,$(REF_KERNEL_SRC:%.c=$(B)/%.$(real).o)) \
           $(foreach isa,$(F32_ISAS),$(patsubst %.c,$(B)/%.$(isa).f32.o,$(filter-out $(CPU_NARROW_SRC) $(CPU_DOT_ONLY_SRC),$(CPU_KERNEL_SRC)))) \
           $(foreach isa,$(F32_ISAS:%=%.f16) $(BF16_ISAS:%=%.bf16),$(patsubst %.c,$(B)/%.$(isa).o,$(filter-out $(CPU_F32_SRC) $(CPU_DOT_ONLY_SRC),$(CPU_KERNEL_SRC)))) \
           $(foreach isa,$(DOT_ISAS),$(CPU_DOT_SRC_$(isa):%.c=$(B)/%.$(isa).bf16.o)) \
           $(CPU_X6_SRC:%.c=$(B)/%.amx.f32.o) $(CPU_SME_F32_SRC:%.c=$(B)/%.sme.f32.o)
CLI_OBJ := $(CLI_SRC:%.c=$(B)/%.o)

# The MPI build shares all but three object files with the release build.
ifeq ($(CONFIG),mpi)
RELEASE_B := $(B:build/mpi%=build/release%)
MPI_OBJ := $(patsubst %.c,$(B)/%.o,src/comm/comm.c src/comm/comm_mpi.c bench/rows/machine.c)
RELEASE_OBJ := $(patsubst $(B)/%,$(RELEASE_B)/%,$(filter-out $(MPI_OBJ),$(LIB_OBJ)) $(CLI_OBJ))
LIB_OBJ := $(MPI_OBJ) $(filter-out $(CLI_OBJ:$(B)/%=$(RELEASE_B)/%),$(RELEASE_OBJ))
CLI_OBJ := $(CLI_OBJ:$(B)/%=$(RELEASE_B)/%)
# The recipe makes make check the file's time again, as the release build may have changed it.
$(RELEASE_OBJ): $(RELEASE_B)/stepmark
	@:
$(RELEASE_B)/stepmark: FORCE
	@$(MAKE) CONFIG=release build
endif
FUZZ_SRC := $(filter-out $(if $(filter 0,$(OPENCL)),tests/fuzz/fuzz_opencl_cache.c),$(wildcard tests/fuzz/fuzz_*.c))
FUZZERS := $(FUZZ_SRC:%.c=$(B)/%)
# Under sanitizers fuzzers see more than here.
TESTS := $(addprefix $(B)/tests/,$(basename $(notdir $(TEST_SRC)))) $(if $(filter-out release mpi,$(CONFIG)),$(FUZZERS))
TEST_SHIMS := $(patsubst %.c,$(B)/%.so,$(filter-out $(if $(filter 0,$(OPENCL)),%/opencl_faults.c),$(wildcard tests/shims/*.c)))
# In front of the system's own: a libOpenCL.so.1 for tests of drivers that fail, a card with NCCL in the host's memory, and
# an OpenBLAS that multiplies wrongly.
TEST_LIBRARIES := $(B)/tests/shims/openblas/libopenblas.so.0 \
    $(if $(OPENCL_SRC),$(addprefix $(B)/tests/shims/,libOpenCL.so.1 libcuda.so.1 libnccl.so.2))

# --- targets for users --------------------------------------------------------------------------

.PHONY: help bench test check build wasm mpi deps deps-dev deps-torture deps-package torture fuzz test-peers test-slurm \
        peers bench-peers results prove check-deps check-cl check-attention check-vendors check-emulated opencl-with test-windows \
        schema format tidy pages install uninstall deb tarball wheel dist test-deb test-reproducible test-pages clean \
        tests run-tests objects

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

bench: build ## install what is missing, build, and measure this machine's score: GPT-2 124M's training step on every device
	@$(B)/stepmark score --output-file build/score.jsonl $(ARGS)

test: ## install what is missing, build and run all tests, also under sanitizers and with clang
	@tools/test.sh "$(MAKE)"

# The parts that may be taken alone (docs/adding.md): each links with the objects of these folders alone. Of the engine's
# list of backends the reference stands for all.
PART_reference := os backends/reference/kernels
PART_cpu := os src/plan backends/host backends/cpu
PART_engine := os src backends/host backends/reference embedded.o
PART_FLAGS_engine := $(foreach name,backend_cpu backend_opencl collectives_links collectives_nccl,-Wl,--defsym=sm_$(name)=sm_backend_reference)
PARTS := $(addprefix $(B)/parts/,reference cpu engine)
part_objects = $(filter-out %/rounded.f64.o,$(filter $(foreach path,$(PART_$(1)),$(B)/$(path) $(B)/$(path)/%),$(LIB_OBJ)))
$(foreach part,$(PARTS),$(eval $(part): $(call part_objects,$(notdir $(part)))))
$(PARTS): $(B)/parts/%:
	@mkdir -p $(@D)
	$(SAY) LINK $@
	@$(CC) $(BASE_FLAGS) $(LDFLAGS) -nostartfiles -Wl,-e,0 $(PART_FLAGS_$*) -o $@ $^ $(LIBS)

# The door of the course: one file, and the reference's functions.
$(B)/smallest: learn/smallest/smallest.c $(filter %.f32.o,$(call part_objects,reference)) $(filter $(B)/os/%,$(LIB_OBJ))
	$(SAY) CC $@
	@$(COMPILE) $(LDFLAGS) -o $@ $^ -lm

# For each part of the tree, the tests that find most in the least time.
CHECK_TESTS := $(or $(T),bf16 compare complete cpu_math cpu_split documents flags generate golden gradient harness hf_config init io loop \
               no_verdict os paired plan processes processor read_rows recommend record rows same_bits scaling schedule smallest stats \
               stopping tokenizer tokens training_metrics tuning weights)
# Else a broken script would hide every failure, its own test's too.
TRY_RUN_TESTS = ! tools/run_tests.sh false >/dev/null 2>&1 || { echo "tools/run_tests.sh loses failures"; exit 1; }
CHECK_COMMANDS = $(if $(T),,tools/check_deps.sh "tools/check_cl.sh -DDATA_F32" "tools/tests/small_runs.sh $(B)/stepmark")
check: ## run the checks for a change: about a minute, less with CONFIG=dev (T="plan gradient": only these tests)
	@$(MAKE) -s build $(CHECK_TESTS:%=$(B)/tests/test_%) $(TEST_SHIMS) $(TEST_LIBRARIES) $(PARTS) $(B)/smallest $(B)/tests/topology.xml
	@mkdir -p build/cache/pocl
	$(if $(T),,@tools/check_lines.sh)
	@$(TRY_RUN_TESTS)
	@$(TEST_SURROUNDINGS) BRIEF=1 tools/run_tests.sh $(CHECK_COMMANDS) $(CHECK_TESTS:%=$(B)/tests/test_%)

build: $(B)/stepmark$(EXE) ## build build/release/stepmark

wasm: ## install clang for wasm32, and build the module by which pages compute a step again
	@rm -f $(WASM)
	@WANTED=1 $(MAKE) $(WASM)

mpi: ## install Open MPI, and build build/mpi/stepmark, for several processes under mpirun or srun
	@$(MAKE) CONFIG=mpi build

deps: ## install the Debian packages that the program needs
deps-dev: ## also install what the tests and checks need
deps-torture: ## also install what the long tests need
deps-package: ## also install what building and testing packages needs
deps deps-dev deps-torture deps-package:
	@:

torture: build ## run the long tests: fuzzers, faults, signals, sanitizers, simulators (PARTS="fuzz tsan": only these)
	@tools/torture.sh $(PARTS)

fuzz: ## run the fuzzers over every parser (SECONDS_EACH=30 or RUNS=N; FUZZERS="rows flags": only these)
	@tools/torture/fuzz.sh

test-peers: build ## test bench/peers, and compare weights, losses, gradients and eval with PyTorch and transformers
	@tools/tests/peers.sh $(B)/stepmark

test-slurm: build ## set up Slurm on this machine and run tools/slurm's scripts on it (as root; PARTS="warned killed": only these)
	@tools/tests/slurm.sh $(PARTS)

peers: ## set up PyTorch, for comparisons, in a virtual environment outside the tree
	@tools/peers.sh

bench-peers: build ## measure stepmark and PyTorch in turns on the same work, and print ratios (ARGS="--help" for more)
	@python=$$(tools/peers.sh) && "$$python" bench/peers/side_by_side.py --stepmark $(B)/stepmark --results $(B)/peers.jsonl $(ARGS)

results: build ## measure this machine for bench/results, which the leaderboard shows as references (NAME=host SCORES=5)
	@tools/results.sh $(B)/stepmark $(or $(NAME),$(shell hostname)) $(SCORES)

prove: build ## measure again what the documents claim about comparisons, sweeps, estimates and overhead: about 25 minutes
	@$(MAKE) B=build/slowed CFLAGS=-DSM_TEST_SLOWDOWN=0.03 build
	@tools/prove.py $(B)/stepmark build/slowed/stepmark $(CLAIMS)

test-windows: ## build the program for Windows, and run it under wine (skips where wine or mingw-w64 is missing)
	@tools/tests/windows.sh

check-deps: ## check that every layer includes only lower layers
	@tools/check_deps.sh

check-cl: ## check that every kernel file compiles as OpenCL C 1.2 without a warning
	@tools/check_cl.sh

check-nvidia: ## check the kernels for NVIDIA's matrix units with emulated instructions
	@tools/check_nvidia.sh

check-vendors: build ## compile the kernels of matrix units with AMD's and Intel's compilers (as root; TARGETS="gfx942 bmg" for some)
	@tools/vendors/check.sh

check-emulated: build ## verify the matrix units of AMD and Intel by emulation, and spoilt ones (CARDS="gfx942 bmg" for some)
	@tools/vendors/check_emulated.sh

opencl-with: $(B)/tests/test_opencl $(B)/tests/test_opencl_narrow ## run the OpenCL tests on another implementation: WITH=intel (not given), rusticl or oclgrind
	@tools/opencl_with.sh $(or $(WITH),intel) $(B)/tests/test_opencl
	@tools/opencl_with.sh $(or $(WITH),intel) $(B)/tests/test_opencl_narrow

schema: build ## regenerate docs/row.schema.json, after a change of the row's fields
	@$(B)/stepmark run --schema > $(B)/row.schema.json && mv $(B)/row.schema.json docs/row.schema.json

format: ## format the sources with clang-format
	@clang-format -i $$(git ls-files '*.c' '*.h')

tidy: $(B)/ladder_rungs.list ## run clang-tidy over the sources
	@clang-tidy --quiet $(ENGINE_SRC) $(BENCH_SRC) $(LEARN_SRC) $(CLI_SRC) $(HOST_SRC) $(REF_SRC) $(CPU_SRC) $(OPENCL_SRC) -- -std=c11 -D_GNU_SOURCE $(INCLUDES) -I$(B) -fopenmp $(if $(OPENCL_SRC),-DSM_OPENCL) $(BUILD_INFO_FLAGS)

pages: build ## print manual pages and shell completions into build/release/pages
	@tools/packages/pages.sh $(B)/stepmark $(B)/pages

PREFIX ?= /usr/local
export DESTDIR PREFIX ZSHDIR
install: pages ## install program, manual pages, completions and documents (PREFIX=/usr/local DESTDIR=)
	@tools/packages/install.sh install $(B)

uninstall: pages ## remove the installed files
	@tools/packages/install.sh uninstall $(B)

deb: ## build a Debian package in build/deb
	@CC="$(CC)" tools/packages/deb.sh

tarball: ## build a folder with the program for any Linux of glibc 2.28 or newer, in build/stepmark-*.tar.gz
	@CC="$(CC)" tools/packages/archive.sh "$(MAKE)"

wheel: ## build a Python wheel with the program inside (manylinux_2_28), and use it in a fresh environment
	@CC="$(CC)" tools/packages/wheel.sh "$(MAKE)"

dist: ## build the files to download into build/dist, for each system, with SHA256SUMS, and a page about them
	@tools/packages/dist.sh "$(MAKE)"

test-deb: deb ## install the package in a minimal Debian, use it, remove and purge it (as root)
	@tools/packages/test_deb.sh

test-reproducible: ## build twice, in different folders, and compare byte by byte
	@tools/packages/test_reproducible.sh

test-pages: pages ## check manual pages with mandoc, and completions in bash, zsh and fish
	@tools/packages/test_pages.sh $(B)/stepmark $(B)/pages

clean: ## remove everything that was built
	rm -rf build

# --- building -----------------------------------------------------------------------------------

tests: $(TESTS) $(TEST_SHIMS) $(TEST_LIBRARIES) $(B)/stepmark $(PARTS) $(B)/smallest

# Runs the tests of this configuration, the longest first, and prints one line for each and a summary. The leak checker
# sometimes crashes on thread-local memory of libraries loaded at run time (OpenCL drivers), so it does not search
# there. The build folder caches compiled and tuned kernels. PoCL takes longer to compile a kernel than a test to run it:
# outside of the long tests it does not optimise. Threads that spin while they wait take time from the tests next to it.
# Ceilings of memory are measured as on a machine of small caches (tests/support/small_caches.c).
LONGEST_TESTS := opencl_narrow opencl exercise judge sweep verify cli drivers spot_check cheats loader recipe screens ladder \
                 recompute walk cpu_product loop_program page again optimizers trainer gradient_check run_outputs \
                 file_faults cpu_pool allocations course tokenize cpu_memory
# PoCL 7.1 computes wrongly without optimising.
POCL_7 := $(wildcard /usr/lib/*/libpocl.so.2.15*)
TEST_SURROUNDINGS = ASAN_OPTIONS=detect_leaks=1:intercept_tls_get_addr=0 \
                    LSAN_OPTIONS=suppressions=tools/lsan.supp:print_suppressions=0 \
                    XDG_CACHE_HOME=$(CURDIR)/build/cache POCL_CACHE_DIR=$(CURDIR)/build/cache/pocl \
                    HWLOC_XMLFILE=$(CURDIR)/$(B)/tests/topology.xml HWLOC_THISSYSTEM=1 \
                    OMP_WAIT_POLICY=passive $(if $(STEPMARK_TEST_ALL)$(POCL_7),,POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable)
LONGEST := $(LONGEST_TESTS:%=$(B)/tests/test_%)
run-tests: tests $(B)/tests/topology.xml
	@mkdir -p build/cache/pocl
	@$(TRY_RUN_TESTS)
	@$(TEST_SURROUNDINGS) tools/run_tests.sh $(RUN_FIRST) $(filter $(TESTS),$(LONGEST)) $(filter-out $(LONGEST),$(TESTS)) $(RUN_LAST)

# Compiles all sources and tests to find warnings, without linking; clang finds all of its own without making code
# (tools/clang_syntax.sh, in a part of the time).
$(if $(filter clang,$(CONFIG)),objects: CFLAGS += -fsyntax-only)
objects: $(LIB_OBJ) $(CLI_OBJ) $(TEST_SHIMS) $(patsubst %.c,$(B)/%.o,$(TEST_SRC) $(wildcard tests/fuzz/*.c))

# Exports the functions of include/ to backends in shared libraries.
EXPORTS := $(if $(filter windows macos,$(OS)),,-Wl,--export-dynamic-symbol='sm_*')
$(B)/stepmark$(EXE): $(CLI_OBJ) $(B)/libstepmark.a
	$(SAY) LINK $@
	@$(CC) $(BASE_FLAGS) $(LDFLAGS) $(EXPORTS) -o $@.new $^ $(LIBS) && mv $@.new $@ # it may be running
	$(if $(filter 0,$(HAS_OPENCL)),@echo "$@: without OpenCL: its headers (opencl-headers) are not installed")

$(B)/libstepmark.a: $(LIB_OBJ)
	@cc="$(CC)"; rm -f $@ && $(if $(findstring ziglang,$(CC)),$${cc% cc *} ar,"$$($(CC) -print-prog-name=ar)") qcs $@ $^

TEST_FLAGS := -DSM_TEST_BINARY='"$(B)/stepmark"' -DSM_TEST_SHIMS='"$(B)/tests/shims"' -DSM_TEST_GOLDEN_DIR='"tests/golden"' \
              -DSM_FUZZ_CORPUS_DIR='"tests/fuzz/corpus"'
$(B)/tests/%.o: FILE_FLAGS := $(TEST_FLAGS)
# Tests spend their time in the program: compiling them without optimisation takes a fifth of the time. Those of
# backends compute expected values by the million themselves.
TEST_OPTIMISE = $(if $(filter tests/backends/%,$<),,$(if $(filter release asan dev,$(CONFIG)),-O0))
# A test's name does not depend on its folder.
vpath test_%.c $(sort $(dir $(TEST_SRC)))
$(B)/tests/test_%: test_%.c $(B)/libstepmark.a
	@mkdir -p $(@D)
	$(SAY) CC $@
	@$(COMPILE) $(TEST_OPTIMISE) $(TEST_FLAGS) $(LDFLAGS) -o $@ $< $(filter %.o,$^) $(B)/libstepmark.a -lcmocka $(LIBS)

# It reads the program's tables.
$(B)/tests/test_subcommands $(B)/tests/test_strangers: $(filter-out %/main.o,$(CLI_OBJ))

# Written again each time, as machines change.
$(B)/tests/topology.xml: $(B)/tests/small_caches FORCE
	@$< $@
$(B)/tests/small_caches: tests/support/small_caches.c
	@mkdir -p $(@D)
	@$(CC) -std=c11 $(WARNINGS) -o $@ $< -lhwloc

# Libraries that tests preload into the program; without sanitizers, which the program has.
$(B)/tests/shims/%.so: tests/shims/%.c
	@mkdir -p $(@D)
	$(SAY) CC $@
	@$(CC) -std=c11 -D_GNU_SOURCE -Iinclude $(WARNINGS) -O2 -g -fPIC -shared -o $@ $< -ldl

# Named as the libraries that backends look for.
$(B)/tests/shims/openblas/libopenblas.so.0: $(B)/tests/shims/openblas.so
$(B)/tests/shims/libOpenCL.so.1: $(B)/tests/shims/opencl_faults.so
$(B)/tests/shims/libcuda.so.1: $(B)/tests/shims/cuda.so
$(B)/tests/shims/libnccl.so.2: $(B)/tests/shims/nccl.so
$(TEST_LIBRARIES):
	@mkdir -p $(@D)
	@cp $< $@

# A fuzzer is linked with the whole program except its main. In build/fuzz libFuzzer generates inputs; elsewhere it runs
# once over its saved corpus, as a test.
FUZZ_LINKED := tests/fuzz/harness_support.c $(if $(filter fuzz,$(CONFIG)),-fsanitize=fuzzer,tests/fuzz/corpus_replay.c)
$(FUZZERS): $(B)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/harness_support.c tests/fuzz/corpus_replay.c \
            tests/fuzz/harness_support.h $(B)/without_main.o $(B)/libstepmark.a $(filter-out %/main.o,$(CLI_OBJ))
	@mkdir -p $(@D)
	$(SAY) CC $@
	@$(COMPILE) $(TEST_OPTIMISE) -DSM_FUZZ_CORPUS_DIR='"tests/fuzz/corpus/$*"' $(LDFLAGS) -o $@ $< $(FUZZ_LINKED) \
	    $(filter-out %/main.o,$(CLI_OBJ)) $(B)/without_main.o $(B)/libstepmark.a $(LIBS)

$(B)/without_main.o: cli/front/main.c
	@mkdir -p $(@D)
	@$(COMPILE) -Wno-missing-prototypes -Dmain=stepmark_main -c -o $@ $<

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC $@
	@$(COMPILE) -c -o $@ $<

$(B)/src/comm/comm_mpi.o: FILE_FLAGS := $(MPI_FLAGS:-I%=-isystem %)

# Sums hundreds of millions of elements over processes.
$(B)/src/comm/comm_move.o: FILE_FLAGS := $(KERNEL_FLAGS)

# Reads all parameters while the user waits.
$(filter %/gradient_check.o,$(LIB_OBJ)): FILE_FLAGS := $(KERNEL_FLAGS)

# The reference is compiled for two types: float, and double for gradient checks.
$(B)/%.f32.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC $@
	@$(COMPILE) $(KERNEL_FLAGS) $(REF_OPTIMISE_$(CONFIG)) -c -o $@ $<

$(B)/%.f64.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC $@
	@$(COMPILE) $(KERNEL_FLAGS) -DREF_F64 -c -o $@ $<

# The cpu backend's kernels are compiled for several instruction sets, one of which is chosen at run time, and for three
# data types.
CPU_DATA_FLAGS_bf16 := -DCPU_DATA_BF16
CPU_DATA_FLAGS_f16 := -DCPU_DATA_F16
# The header of AVX's intrinsics takes longer to compile than most kernels: gcc compiles it once for each of them. Kernels
# compiled with other flags ignore what it has made, and are right.
define INTRINSICS_RULE
INTRINSICS_$(1) := $(B)/intrinsics/$(1)/immintrin.h
$(B)/intrinsics/$(1)/immintrin.h.gch:
	@mkdir -p $$(@D)
	@echo '#include <immintrin.h>' >$$(@:.gch=)
	@$$(COMPILE) $(KERNEL_FLAGS) $(ISA_FLAGS_$(1)) -x c-header -o $$@ $$(@:.gch=)
endef
$(foreach isa,$(if $(findstring gcc,$(CC)),$(filter avx% amx,$(ISAS))),$(eval $(call INTRINSICS_RULE,$(isa))))
# Without these ccache compiles whatever includes it.
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
define ISA_RULE
$(B)/%.$(1).$(2).o: %.c | $(INTRINSICS_$(1):=.gch)
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	@$$(COMPILE) $(KERNEL_FLAGS) $(ISA_FLAGS_$(1)) $(CPU_DATA_FLAGS_$(2)) -DCPU_ISA=$(1) $(CPU_BASE_$(1)_$(2)) $(INTRINSICS_$(1):%=-include %) \
	    -c -o $$@ $$<
endef
$(foreach isa,$(ALL_ISAS),$(foreach data,f32 bf16 f16,$(eval $(call ISA_RULE,$(isa),$(data)))))
# GCC 14 for RISC-V ends with an internal error where it makes scalars of a row's largest values.
$(B)/backends/cpu/kernels/loss.rvv%.o: FILE_FLAGS := $(if $(findstring clang,$(CC)),,-fno-tree-sra)
$(B)/backends/cpu/isa.o: $(B)/build_info
$(B)/backends/cpu/isa.o: FILE_FLAGS := $(foreach isa,$(ALL_ISAS),-DCPU_WITH_$(isa)=$(if $(filter $(isa),$(ISAS)),1,0))

# A rung's function is named after its kind in the source, and after its file and instruction set here. Rungs before the
# vector rung compute one number at a time: automatic vectorisation is off.
RUNG_KINDS := matmul_forward layernorm_forward crossentropy_forward flash_attention_forward
RENAMED = $(foreach kind,$(RUNG_KINDS),-D$(kind)=$(1) -D$(kind)_threads=$(1)_threads -D$(kind)_signature=$(1)_signature)
RUNG_IS_VECTORS := %_vectorised %matmul_packed %_threads
RUNG_FLAGS = $(if $(filter $(RUNG_IS_VECTORS),$*),,-fno-tree-vectorize -fno-tree-slp-vectorize)
define RUNG_RULE
$(B)/%.$(1).rung.o: %.c
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	@$$(COMPILE) $(KERNEL_FLAGS) $$(RUNG_FLAGS) -Ilearn/ladder $(ISA_FLAGS_$(1)) -Wno-missing-prototypes \
	    $$(call RENAMED,rung_$$(*F)_$(1)) -c -o $$@ $$<
endef
$(foreach isa,$(F32_ISAS),$(eval $(call RUNG_RULE,$(isa))))

# The list of their functions, for C to include.
$(B)/ladder_rungs.list: $(RUNG_SRC) FORCE
	@mkdir -p $(@D)
	@printf 'RUNG(%s)\n' $(foreach isa,$(F32_ISAS),$(patsubst %,"%$(,) $(isa)",$(basename $(notdir $(RUNG_SRC))))) > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(B)/learn/ladder/rungs.o: FILE_FLAGS := -I$(B)
$(B)/learn/ladder/rungs.o: $(B)/ladder_rungs.list

# Facts of the build, compiled into the files that use them. Set them on the command line if there is no git.
VERSION := $(shell sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
BUILD_COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
ROOMS := Makefile include os src backends cl bench cli learn tools
BUILD_DIRTY ?= $(shell test -z "$$(git status --porcelain -- $(ROOMS) 2>/dev/null | head -1)" && echo 0 || echo 1)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
BUILD_INFO_FLAGS := -DSM_BUILD_COMMIT='"$(BUILD_COMMIT)"' -DSM_BUILD_DIRTY=$(BUILD_DIRTY) \
    -DSM_BUILD_VERSION='"$(VERSION)"' -DSM_BUILD_DATE='"$(shell date -u -d @$(SOURCE_DATE_EPOCH) +%F)"' \
    -DSM_BUILD_ISAS='"$(ISAS)"' -DSM_COMPILER_FLAGS='"$(OPTIMISE) $(KERNEL_FLAGS)"'
BUILD_INFO_OBJ := $(B)/bench/rows/machine.o $(B)/backends/host/tuning.o
$(BUILD_INFO_OBJ): FILE_FLAGS := $(BUILD_INFO_FLAGS)
$(BUILD_INFO_OBJ): $(B)/build_info
$(B)/build_info: FORCE
	@mkdir -p $(@D)
	@echo "$(subst ",,$(BUILD_INFO_FLAGS))" | cmp -s - $@ || echo "$(subst ",,$(BUILD_INFO_FLAGS))" > $@
.PHONY: FORCE
FORCE:

$(WASM): tools/wasm.sh $(WASM_SRC) $(wildcard include/*.h os/*.h learn/live/*.h backends/host/*.h backends/reference/*.h src/*/*.h)
	@echo "  WASM $@"
	@tools/wasm.sh $@ $(WASM_SRC)

# The embedded files, and a list of them that the assembler includes.
$(B)/embedded.list: $(EMBEDDED) FORCE
	@mkdir -p $(@D)
	@printf 'EMBED "%s"\n' $(EMBEDDED) > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(B)/embedded.o: src/io/embedded.S $(B)/embedded.list $(EMBEDDED)
	@CCACHE_DISABLE=1 $(CC) -c -I$(B) -o $@ $< # it would not see that an embedded file has changed

-include $(patsubst %.o,%.d,$(filter $(B)/%,$(LIB_OBJ) $(CLI_OBJ))) $(filter-out $(FUZZERS:=.d),$(TESTS:=.d)) $(B)/without_main.d
