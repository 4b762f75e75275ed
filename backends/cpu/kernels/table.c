// table.c: the kernels of one instruction set and type of data, by op kind.
#include "backends/cpu/common/kernel.h"

// Products of narrow data, and of floats as sums of bf16, pack an operand for all threads, which meet after that.
#if defined(CPU_DATA_NARROW) || defined(CPU_SPLITS_FLOATS) || CPU_SME
#define MATMUL_MEETS true
#else
#define MATMUL_MEETS false
#endif

#ifndef __clang__ // whose flag is in the Makefile
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
const cpu_kernel_table ISA(cpu_kernels) = {
    .run =
        {
#define OP(code, name, ...) [code] = BASE_ISA(cpu_##name),
#define NO_SHARED_OPS
#define NO_FP8_OPS
#include "op_table.h"
            // These replace the rows above.
            [SM_OP_MATMUL_FORWARD] = ISA(cpu_matmul_forward),
            [SM_OP_MATMUL_BACKWARD_INPUT] = ISA(cpu_matmul_backward_input),
            [SM_OP_MATMUL_BACKWARD_WEIGHT] = ISA(cpu_matmul_backward_weight),
            [SM_OP_FLASH_ATTENTION_FORWARD] = TILES_ISA(cpu_flash_attention_forward),
            [SM_OP_FLASH_ATTENTION_BACKWARD] = TILES_ISA(cpu_flash_attention_backward),
        },
    .finish =
        {
            [SM_OP_LAYERNORM_BACKWARD] = BASE_ISA(cpu_layernorm_backward_finish),
            [SM_OP_RMSNORM_BACKWARD] = BASE_ISA(cpu_rmsnorm_backward_finish),
            [SM_OP_HEAD_RMSNORM_BACKWARD] = BASE_ISA(cpu_head_rmsnorm_backward_finish),
            [SM_OP_MATMUL_BACKWARD_WEIGHT] = ISA(cpu_matmul_backward_weight_finish),
            [SM_OP_BIAS_BACKWARD] = BASE_ISA(cpu_bias_backward_finish),
            [SM_OP_GRAD_SQNORM] = BASE_ISA(cpu_grad_sqnorm_finish),
        },
    .finishes = {[SM_OP_MATMUL_BACKWARD_WEIGHT] = SM_OUT(matmul_backward_weight, db)}, // of others the first
    .meets =
        {
            [SM_OP_MATMUL_FORWARD] = MATMUL_MEETS,
            [SM_OP_MATMUL_BACKWARD_INPUT] = MATMUL_MEETS,
            [SM_OP_MATMUL_BACKWARD_WEIGHT] = MATMUL_MEETS,
            [SM_OP_ADAFACTOR] = true,
            [SM_OP_ADAFACTOR_VECTOR] = true,
        },
    .scratch_bytes =
        {
            [SM_OP_LAYERNORM_FORWARD] = BASE_ISA(cpu_layernorm_forward_scratch),
            [SM_OP_LAYERNORM_BACKWARD] = BASE_ISA(cpu_layernorm_backward_scratch),
            [SM_OP_RMSNORM_FORWARD] = BASE_ISA(cpu_rmsnorm_forward_scratch),
            [SM_OP_RMSNORM_BACKWARD] = BASE_ISA(cpu_rmsnorm_backward_scratch),
            [SM_OP_HEAD_RMSNORM_BACKWARD] = BASE_ISA(cpu_head_rmsnorm_backward_scratch),
            [SM_OP_ROPE] = BASE_ISA(cpu_rope_scratch),
            [SM_OP_MATMUL_FORWARD] = ISA(cpu_matmul_scratch),
            [SM_OP_MATMUL_BACKWARD_INPUT] = ISA(cpu_matmul_scratch),
            [SM_OP_MATMUL_BACKWARD_WEIGHT] = ISA(cpu_matmul_scratch),
            [SM_OP_BIAS_BACKWARD] = BASE_ISA(cpu_bias_backward_scratch),
            [SM_OP_GRAD_SQNORM] = BASE_ISA(cpu_grad_sqnorm_scratch),
            [SM_OP_ADAFACTOR] = BASE_ISA(cpu_adafactor_scratch),
            [SM_OP_ADAFACTOR_VECTOR] = BASE_ISA(cpu_adafactor_vector_scratch),
            [SM_OP_ATTENTION_FORWARD] = BASE_ISA(cpu_attention_forward_scratch),
            [SM_OP_ATTENTION_BACKWARD] = BASE_ISA(cpu_attention_backward_scratch),
            [SM_OP_FLASH_ATTENTION_FORWARD] = TILES_ISA(cpu_flash_attention_forward_scratch),
            [SM_OP_FLASH_ATTENTION_BACKWARD] = TILES_ISA(cpu_flash_attention_backward_scratch),
        },
#if defined(CPU_AMX) && defined(CPU_DATA_NARROW)
    .ahead_units = ISA(cpu_ahead_units),
    .pack_ahead = ISA(cpu_pack_ahead),
#endif
#if (!defined(CPU_DATA_NARROW) || CPU_BF16_K > 1) && !defined(CPU_SPLITS_FLOATS)
    .peak_flops = ISA(cpu_peak_flops),
#endif
#if !defined(CPU_DATA_NARROW) && !defined(CPU_SPLITS_FLOATS)
    .peak_stream = BASE_ISA(cpu_peak_stream),
#endif
};
