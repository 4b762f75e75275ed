// rung_attention_local.cl: a work-group of 32 queries brings 32 keys and values into local memory, and all of its items
// read them there. A larger score rescales the sum and y, so one pass is enough. Heads have up to 128 channels.
#define flash_attention_forward_signature "cl 1 B T QKV C NH NKV HS DROPOUT qkv starts y lse"
#define flash_attention_forward_items "T, B * NH by 32, 1"
#define GROUP 32
#define TILE  32
#define MOST  128

kernel void flash_attention_forward(const long B, const long T, const long QKV, const long C, const long NH,
                                    const long NKV, const long HS, DROPOUT, global const float *qkv,
                                    const ulong qkv_at, global const int *starts, const ulong starts_at,
                                    global float *y, const ulong y_at, global float *lse, const ulong lse_at) {
    local float k_tile[TILE * MOST];
    local float v_tile[TILE * MOST];
    const long t = get_global_id(0);
    const long head = get_global_id(1); // of all B * NH
    const long h = head % NH;
    const long shared = h / (NH / NKV);
    const long row = t < T ? t : T - 1; // items after the last query bring keys as the others do
    const long last = min((long)((get_group_id(0) + 1) * GROUP), T);
    qkv += qkv_at + head / NH * T * QKV;
    y += y_at + (head / NH * T + row) * C + h * HS;
    global const float *q = qkv + row * QKV + h * HS;
    global const float *k = qkv + (NH + shared) * HS;
    global const float *v = qkv + (NH + NKV + shared) * HS;
    float largest = -INFINITY;
    float sum = 0;
    for (long i = 0; t < T && i < HS; i++) {
        y[i] = 0;
    }
    for (long s0 = 0; s0 < last; s0 += TILE) {
        for (long e = get_local_id(0); e < TILE * HS; e += GROUP) {
            const long key = min(s0 + e / HS, T - 1);
            k_tile[e] = k[key * QKV + e % HS];
            v_tile[e] = v[key * QKV + e % HS];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (long s = s0; t < T && s <= t && s < s0 + TILE; s++) {
            float score = 0;
            for (long i = 0; i < HS; i++) {
                score += q[i] * k_tile[(s - s0) * HS + i];
            }
            score /= sqrt((float)HS);
            const float before = largest;
            largest = fmax(largest, score);
            const float scale = exp(before - largest);
            const float weight = exp(score - largest);
            const float kept = weight * KEEP((head * T + t) * T + s);
            sum = sum * scale + weight;
            for (long i = 0; i < HS; i++) {
                y[i] = y[i] * scale + kept * v_tile[(s - s0) * HS + i];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t < T) {
        for (long i = 0; i < HS; i++) {
            y[i] /= sum;
        }
        lse[lse_at + head * T + t] = largest + log(sum);
    }
}
