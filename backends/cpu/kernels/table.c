// table.c: the kernels of one instruction set and type of data, by op kind.
#include "backends/cpu/common/kernel.h"

// Of narrow data, and of floats as sums of bf16, products pack an operand for all threads; of floats more than two threads
// help each other.
#if defined(CPU_DATA_NARROW) || defined(CPU_SPLITS_FLOATS) || CPU_SME
#define MATMUL_MEETS 2
#else
#define MATMUL_MEETS 3
#endif

const cpu_kernel_table ISA(cpu_kernels) = {
    .run =
        {
            [SM_OP_ZERO] = BASE_ISA(cpu_zero),
            [SM_OP_LOSS_SCALE] = BASE_ISA(cpu_loss_scale),
            [SM_OP_EMBEDDING_FORWARD] = BASE_ISA(cpu_embedding_forward),
            [SM_OP_EMBEDDING_BACKWARD] = BASE_ISA(cpu_embedding_backward),
            [SM_OP_DROPOUT] = BASE_ISA(cpu_dropout),
            [SM_OP_LAYERNORM_FORWARD] = BASE_ISA(cpu_layernorm_forward),
            [SM_OP_LAYERNORM_BACKWARD] = BASE_ISA(cpu_layernorm_backward),
            [SM_OP_MATMUL_FORWARD] = ISA(cpu_matmul_forward),
            [SM_OP_MATMUL_BACKWARD_INPUT] = ISA(cpu_matmul_backward_input),
            [SM_OP_MATMUL_BACKWARD_WEIGHT] = ISA(cpu_matmul_backward_weight),
            [SM_OP_BIAS_FORWARD] = BASE_ISA(cpu_bias_forward),
            [SM_OP_BIAS_BACKWARD] = BASE_ISA(cpu_bias_backward),
            [SM_OP_ATTENTION_FORWARD] = BASE_ISA(cpu_attention_forward),
            [SM_OP_ATTENTION_BACKWARD] = BASE_ISA(cpu_attention_backward),
            [SM_OP_GELU_FORWARD] = BASE_ISA(cpu_gelu_forward),
            [SM_OP_GELU_BACKWARD] = BASE_ISA(cpu_gelu_backward),
            [SM_OP_RMSNORM_FORWARD] = BASE_ISA(cpu_rmsnorm_forward),
            [SM_OP_RMSNORM_BACKWARD] = BASE_ISA(cpu_rmsnorm_backward),
            [SM_OP_HEAD_RMSNORM_FORWARD] = BASE_ISA(cpu_head_rmsnorm_forward),
            [SM_OP_HEAD_RMSNORM_BACKWARD] = BASE_ISA(cpu_head_rmsnorm_backward),
            [SM_OP_ROPE] = BASE_ISA(cpu_rope),
            [SM_OP_SWIGLU_FORWARD] = BASE_ISA(cpu_swiglu_forward),
            [SM_OP_SWIGLU_BACKWARD] = BASE_ISA(cpu_swiglu_backward),
            [SM_OP_RESIDUAL] = BASE_ISA(cpu_residual),
            [SM_OP_CROSSENTROPY_FORWARD] = BASE_ISA(cpu_crossentropy_forward),
            [SM_OP_CROSSENTROPY_BACKWARD] = BASE_ISA(cpu_crossentropy_backward),
            [SM_OP_CROSSENTROPY_WITH_GRADIENT] = BASE_ISA(cpu_crossentropy_with_gradient),
            [SM_OP_LOSS_MEAN] = BASE_ISA(cpu_loss_mean),
            [SM_OP_GRAD_SQNORM] = BASE_ISA(cpu_grad_sqnorm),
            [SM_OP_GRAD_CLIP] = BASE_ISA(cpu_grad_clip),
            [SM_OP_SCALER_UPDATE] = BASE_ISA(cpu_scaler_update),
            [SM_OP_ADAMW] = BASE_ISA(cpu_adamw),
            [SM_OP_ADAM] = BASE_ISA(cpu_adam),
            [SM_OP_SGD] = BASE_ISA(cpu_sgd),
            [SM_OP_LION] = BASE_ISA(cpu_lion),
            [SM_OP_ADAMW8BIT] = BASE_ISA(cpu_adamw8bit),
            [SM_OP_ADAFACTOR] = BASE_ISA(cpu_adafactor),
            [SM_OP_ADAFACTOR_VECTOR] = BASE_ISA(cpu_adafactor_vector),
            [SM_OP_MUON_MOMENTUM] = BASE_ISA(cpu_muon_momentum),
            [SM_OP_NORMALIZE] = BASE_ISA(cpu_normalize),
            [SM_OP_COMBINE] = BASE_ISA(cpu_combine),
            [SM_OP_MUON_UPDATE] = BASE_ISA(cpu_muon_update),
            [SM_OP_RESIDUAL_LAYERNORM_FORWARD] = BASE_ISA(cpu_residual_layernorm_forward),
            [SM_OP_RESIDUAL_LAYERNORM_BACKWARD] = BASE_ISA(cpu_residual_layernorm_backward),
            [SM_OP_RESIDUAL_RMSNORM_FORWARD] = BASE_ISA(cpu_residual_rmsnorm_forward),
            [SM_OP_RESIDUAL_RMSNORM_BACKWARD] = BASE_ISA(cpu_residual_rmsnorm_backward),
            [SM_OP_FLASH_ATTENTION_FORWARD] = TILES_ISA(cpu_flash_attention_forward),
            [SM_OP_FLASH_ATTENTION_BACKWARD] = TILES_ISA(cpu_flash_attention_backward),
        },
    .finish =
        {
            [SM_OP_LAYERNORM_BACKWARD] = BASE_ISA(cpu_layernorm_backward_finish),
            [SM_OP_RESIDUAL_LAYERNORM_BACKWARD] = BASE_ISA(cpu_layernorm_backward_finish),
            [SM_OP_RMSNORM_BACKWARD] = BASE_ISA(cpu_rmsnorm_backward_finish),
            [SM_OP_RESIDUAL_RMSNORM_BACKWARD] = BASE_ISA(cpu_rmsnorm_backward_finish),
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
            [SM_OP_ADAFACTOR] = 2,
            [SM_OP_ADAFACTOR_VECTOR] = 2,
        },
    .scratch_bytes =
        {
            [SM_OP_LAYERNORM_FORWARD] = BASE_ISA(cpu_layernorm_forward_scratch),
            [SM_OP_LAYERNORM_BACKWARD] = BASE_ISA(cpu_layernorm_backward_scratch),
            [SM_OP_RESIDUAL_LAYERNORM_FORWARD] = BASE_ISA(cpu_layernorm_forward_scratch),
            [SM_OP_RESIDUAL_LAYERNORM_BACKWARD] = BASE_ISA(cpu_layernorm_backward_scratch),
            [SM_OP_RMSNORM_FORWARD] = BASE_ISA(cpu_rmsnorm_forward_scratch),
            [SM_OP_RMSNORM_BACKWARD] = BASE_ISA(cpu_rmsnorm_backward_scratch),
            [SM_OP_RESIDUAL_RMSNORM_FORWARD] = BASE_ISA(cpu_rmsnorm_forward_scratch),
            [SM_OP_RESIDUAL_RMSNORM_BACKWARD] = BASE_ISA(cpu_rmsnorm_backward_scratch),
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
#if (!defined(CPU_DATA_NARROW) || CPU_BF16_K > 1) && !defined(CPU_SPLITS_FLOATS)
    .peak_flops = ISA(cpu_peak_flops),
#endif
#if !defined(CPU_DATA_NARROW) && !defined(CPU_SPLITS_FLOATS)
    .peak_stream = BASE_ISA(cpu_peak_stream),
#endif
};
