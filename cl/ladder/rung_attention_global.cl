// rung_attention_global.cl: a work-item for each query of a head runs three loops over the keys that it sees, in global
// memory. Each loop computes the scores again.
#define flash_attention_forward_signature "cl 1 B T QKV C NH NKV HS DROPOUT qkv starts y lse"
#define flash_attention_forward_items "T, B * NH by 16, 1"

static float score(global const float *q, global const float *k, const long HS) {
    float sum = 0;
    for (long i = 0; i < HS; i++) {
        sum += q[i] * k[i];
    }
    return sum / sqrt((float)HS);
}

kernel void flash_attention_forward(const long B, const long T, const long QKV, const long C, const long NH,
                                    const long NKV, const long HS, DROPOUT, global const float *qkv,
                                    const ulong qkv_at, global const int *starts, const ulong starts_at,
                                    global float *y, const ulong y_at, global float *lse, const ulong lse_at) {
    const long t = get_global_id(0);
    const long head = get_global_id(1); // of all B * NH
    const long h = head % NH;
    const long shared = h / (NH / NKV);
    if (t >= T) {
        return;
    }
    qkv += qkv_at + head / NH * T * QKV;
    y += y_at + (head / NH * T + t) * C + h * HS;
    global const float *q = qkv + t * QKV + h * HS;
    global const float *k = qkv + (NH + shared) * HS;
    global const float *v = qkv + (NH + NKV + shared) * HS;
    float largest = -INFINITY;
    float sum = 0;
    for (long s = 0; s <= t; s++) {
        largest = fmax(largest, score(q, k + s * QKV, HS));
    }
    for (long s = 0; s <= t; s++) {
        sum += exp(score(q, k + s * QKV, HS) - largest);
    }
    for (long i = 0; i < HS; i++) {
        y[i] = 0;
    }
    for (long s = 0; s <= t; s++) {
        const float weight = exp(score(q, k + s * QKV, HS) - largest) / sum * KEEP((head * T + t) * T + s);
        for (long i = 0; i < HS; i++) {
            y[i] += weight * v[s * QKV + i];
        }
    }
    lse[lse_at + head * T + t] = largest + log(sum);
}
