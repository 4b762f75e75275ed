// exchange.cl: sums of two processes' gradients, each on its own device: what the other brought is copied in and added.
//
//   sum = sum + theirs                                  sum, theirs (n)
//   rounded = bf16(x)                                   x, rounded (n): half the bytes to copy
//   sum = rounded                                       back to fp32
//   sum = bf16(bf16(sum) + rounded)                     both processes get the same bits: a + b = b + a
//
// A work-item handles one vec. The program is built for data of bf16, whatever a plan's are.
#if !DATA_IS_NARROW
#define round_vec(x) (x)
#elif VECTOR == 1
#define round_vec(x) widen(narrow(x))
#else
#define round_vec(x) JOIN(widen, VECTOR)(JOIN(narrow, VECTOR)(x))
#endif

kernel void exchange_add(ulong n, const global float *theirs, OUT(float, sum)) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i < n) {
        global float *to = sum + sum_at + i;
        store_part(load_part(to, n - i, 0.0f) + load_part(theirs + i, n - i, 0.0f), to, n - i);
    }
}

kernel void exchange_round(ulong n, IN(float, x), global data *rounded) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i < n) {
        store_data_part(load_part(x + x_at + i, n - i, 0.0f), rounded + i, n - i);
    }
}

kernel void exchange_widen(ulong n, OUT(float, sum), const global data *rounded) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i < n) {
        store_part(load_data_part(rounded + i, n - i, 0.0f), sum + sum_at + i, n - i);
    }
}

// The own part was rounded on its way out; it is here, too, so that all add the same numbers.
kernel void exchange_add_rounded(ulong n, const global data *theirs, OUT(float, sum)) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i < n) {
        global float *to = sum + sum_at + i;
        const vec own = round_vec(load_part(to, n - i, 0.0f));
        store_part(round_vec(own + load_data_part(theirs + i, n - i, 0.0f)), to, n - i);
    }
}
