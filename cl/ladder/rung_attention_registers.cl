// rung_attention_registers.cl: an item keeps its query and its sums in registers, and takes a tile of scores at a time:
// y is scaled once for each tile, and written once. Heads have up to 128 channels.
#define flash_attention_forward_signature "cl 1 B T QKV C NH NKV HS DROPOUT qkv starts y lse"
#define flash_attention_forward_items "T, B * NH by 32, 1"
#define GROUP 32
#define TILE  16
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
    float mine[MOST];
    float mix[MOST];
    float largest = -1e30f; // below all scores, and two of them differ by 0
    float sum = 0;
    for (int i = 0; i < MOST; i++) {
        mine[i] = i < HS ? q[i] / sqrt((float)HS) : 0;
        mix[i] = 0;
    }
    for (long s0 = 0; s0 < last; s0 += TILE) {
        float score[TILE];
        const float before = largest;
        for (long e = get_local_id(0); e < TILE * HS; e += GROUP) {
            const long key = min(s0 + e / HS, T - 1);
            k_tile[e] = k[key * QKV + e % HS];
            v_tile[e] = v[key * QKV + e % HS];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int s = 0; s < TILE; s++) {
            score[s] = 0;
            for (int i = 0; i < HS; i++) {
                score[s] += mine[i] * k_tile[s * HS + i];
            }
            score[s] = s0 + s <= t ? score[s] : -INFINITY;
            largest = fmax(largest, score[s]);
        }
        const float scale = exp(before - largest);
        sum *= scale;
        for (int i = 0; i < HS; i++) {
            mix[i] *= scale;
        }
        for (int s = 0; s < TILE; s++) {
            const float weight = exp(score[s] - largest);
            const float kept = weight * KEEP((head * T + row) * T + s0 + s);
            sum += weight;
            for (int i = 0; i < HS; i++) {
                mix[i] += kept * v_tile[s * HS + i];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t < T) {
        for (int i = 0; i < HS; i++) {
            y[i] = mix[i] / sum;
        }
        lse[lse_at + head * T + t] = largest + log(sum);
    }
}
