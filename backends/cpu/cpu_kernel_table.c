// cpu_kernel_table.c: the kernels of one instruction set, by op kind.
#include "cpu_kernel.h"

const cpu_kernel_table ISA(cpu_kernels) = {
    .run =
        {
            [SM_OP_ZERO] = ISA(cpu_zero),
            [SM_OP_LOSS_SCALE] = ISA(cpu_loss_scale),
            [SM_OP_EMBEDDING_FORWARD] = ISA(cpu_embedding_forward),
            [SM_OP_EMBEDDING_BACKWARD] = ISA(cpu_embedding_backward),
            [SM_OP_DROPOUT] = ISA(cpu_dropout),
            [SM_OP_LAYERNORM_FORWARD] = ISA(cpu_layernorm_forward),
            [SM_OP_LAYERNORM_BACKWARD] = ISA(cpu_layernorm_backward),
            [SM_OP_MATMUL_FORWARD] = ISA(cpu_matmul_forward),
            [SM_OP_MATMUL_BACKWARD_INPUT] = ISA(cpu_matmul_backward_input),
            [SM_OP_MATMUL_BACKWARD_WEIGHT] = ISA(cpu_matmul_backward_weight),
            [SM_OP_BIAS_FORWARD] = ISA(cpu_bias_forward),
            [SM_OP_BIAS_BACKWARD] = ISA(cpu_bias_backward),
            [SM_OP_ATTENTION_FORWARD] = ISA(cpu_attention_forward),
            [SM_OP_ATTENTION_BACKWARD] = ISA(cpu_attention_backward),
            [SM_OP_GELU_FORWARD] = ISA(cpu_gelu_forward),
            [SM_OP_GELU_BACKWARD] = ISA(cpu_gelu_backward),
            [SM_OP_RESIDUAL] = ISA(cpu_residual),
            [SM_OP_CROSSENTROPY_FORWARD] = ISA(cpu_crossentropy_forward),
            [SM_OP_CROSSENTROPY_BACKWARD] = ISA(cpu_crossentropy_backward),
            [SM_OP_LOSS_MEAN] = ISA(cpu_loss_mean),
            [SM_OP_GRAD_SQNORM] = ISA(cpu_grad_sqnorm),
            [SM_OP_GRAD_CLIP] = ISA(cpu_grad_clip),
            [SM_OP_ADAMW] = ISA(cpu_adamw),
            [SM_OP_RESIDUAL_LAYERNORM_FORWARD] = ISA(cpu_residual_layernorm_forward),
            [SM_OP_RESIDUAL_LAYERNORM_BACKWARD] = ISA(cpu_residual_layernorm_backward),
            [SM_OP_FLASH_ATTENTION_FORWARD] = ISA(cpu_flash_attention_forward),
            [SM_OP_FLASH_ATTENTION_BACKWARD] = ISA(cpu_flash_attention_backward),
        },
    .scratch_bytes =
        {
            [SM_OP_LAYERNORM_BACKWARD] = ISA(cpu_layernorm_backward_scratch),
            [SM_OP_RESIDUAL_LAYERNORM_BACKWARD] = ISA(cpu_layernorm_backward_scratch),
            [SM_OP_MATMUL_FORWARD] = ISA(cpu_matmul_scratch),
            [SM_OP_MATMUL_BACKWARD_INPUT] = ISA(cpu_matmul_scratch),
            [SM_OP_MATMUL_BACKWARD_WEIGHT] = ISA(cpu_matmul_scratch),
            [SM_OP_BIAS_BACKWARD] = ISA(cpu_bias_backward_scratch),
            [SM_OP_GRAD_SQNORM] = ISA(cpu_grad_sqnorm_scratch),
            [SM_OP_ATTENTION_FORWARD] = ISA(cpu_attention_forward_scratch),
            [SM_OP_ATTENTION_BACKWARD] = ISA(cpu_attention_backward_scratch),
            [SM_OP_FLASH_ATTENTION_FORWARD] = ISA(cpu_flash_attention_forward_scratch),
            [SM_OP_FLASH_ATTENTION_BACKWARD] = ISA(cpu_flash_attention_backward_scratch),
        },
    .peak_flops = ISA(cpu_peak_flops),
#if defined(__AVX512F__)
    .peak_dot_bf16 = ISA(cpu_peak_dot_bf16),
#endif
    .peak_stream = ISA(cpu_peak_stream),
};
