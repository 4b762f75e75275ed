// step_rules.js: how each number of an op is made: for each kind the equations of its outputs, element by element, in
// the notation of docs/equations.md. They are shown, computed and inverted as they stand (step_trace.js). `rules` here.
//
//   y[n,f]      two letters: rows by columns; one: flat; one more than the tensor has: its last side falls into heads
//   m'[i]       an updated tensor after the op; m[i] is before it. A tensor that is only written is after the op
//   {b? + b[f]} only where the op has this operand, or this attribute is not zero; {!b? ...}: only where not; & joins
//   xh[n,c] =   a line whose left side is no operand of the op defines a name for the others
const rules = (() => {
    const softmax = `
        score[b,h,t,s] = sum_i qkv[b,t,h,i] qkv[b,s,NH + group(h),i] / sqrt(HS)`;
    const weights = `
        ${softmax}
        W[b,h,t,s] = {!cut? [s <= t] }{starts? [starts[b,t] <= s] }exp(score[b,h,t,s]) / sum_r {!cut? [r <= t] }{starts? [starts[b,t] <= r] }exp(score[b,h,t,r])`;
    const kept = '{rate? keep[b,h,t,s]/(1 - rate) }';
    const mixed = (att) => `y[b,t,h,i] = sum_s {!cut? [s <= t] }{starts? [starts[b,t] <= s] }${kept}${att} qkv[b,s,NH + NKV + group(h),i]`;
    const attentionBackward = (att) => `
        da[b,h,t,s] = ${kept}sum_i dy[b,t,h,i] qkv[b,s,NH + NKV + group(h),i]
        ds[b,h,t,s] = ${att('s')} (da[b,h,t,s] - sum_r {!cut? [r <= t] }{starts? [starts[b,t] <= r] }${att('r')} da[b,h,t,r])
        dqkv[b,t,h,i] = sum_s {!cut? [s <= t] }{starts? [starts[b,t] <= s] }ds[b,h,t,s] qkv[b,s,NH + group(h),i] / sqrt(HS)
        dqkv[b,s,NH + g,i] = sum_t {!cut? [s <= t] }{starts? [starts[b,t] <= s] }sum_h [group(h) = g] ds[b,h,t,s] qkv[b,t,h,i] / sqrt(HS)
        dqkv[b,s,NH + NKV + g,i] = sum_t {!cut? [s <= t] }{starts? [starts[b,t] <= s] }sum_h [group(h) = g] ${kept}${att('s')} dy[b,t,h,i]`;
    const normed = '{r? r[n,c]}{!r? x[n,c]}';
    const layernormBackward = `
        xh[n,c] = (x[n,c] - mean[n]) rstd[n]
        gx[n,c] = dy[n,c] w[c]
        dx[n,c] = {dskip&!cut? dskip[n,c] + }rstd[n] (gx[n,c] - sum_j gx[n,j] / C - xh[n,c] sum_j gx[n,j] xh[n,j] / C)
        dw[c] += sum_n dy[n,c] xh[n,c]
        db[c] += sum_n dy[n,c]
        dbias[c] += sum_n dx[n,c]`;
    const rmsnormBackward = `
        xh[n,c] = x[n,c] rstd[n]
        gx[n,c] = dy[n,c] w[c]
        dx[n,c] = {dskip&!cut? dskip[n,c] + }rstd[n] (gx[n,c] - xh[n,c] sum_j gx[n,j] xh[n,j] / C)
        dw[c] += sum_n dy[n,c] xh[n,c]`;
    const losses = `
        lse[n] = log(sum_v [v < V] exp(logits[n,v]))
        losses[n] = [target[n] >= 0] (lse[n] - logits[n,target[n]])`;
    const dlogits = 'dlogits[n,v] = [target[n] >= 0] [v < V] scale (exp(logits[n,v] - lse[n]) - [v = target[n]])';
    const copy = 'w[i] = p\'[i]';
    const moments = (gradient) => `
        gc[i] = clip g[i]${gradient}
        m[i] = beta1 m[i] + (1 - beta1) gc[i]
        v[i] = beta2 v[i] + (1 - beta2) gc[i]^2`;

    return {
        zero: 'x[i] = 0',
        loss_scale: 'scale = {scaler? scaler[0] }loss_share / max(1, sum_n [targets[n] >= 0])',
        embedding_forward: `x[b,t,c] = wte[token[b,t],c]{wpe&!starts? + wpe[t,c]}{wpe&starts? + wpe[t - starts[b,t],c]}`,
        embedding_backward: `
            dwte[v,c] += sum_b sum_t [token[b,t] = v] dx[b,t,c]
            dwpe[p,c] += sum_b sum_t [t{starts? - starts[b,t]} = p] dx[b,t,c]`,
        dropout: 'y[i] = keep[i] x[i] / (1 - rate)',
        layernorm_forward: `
            r[n,c] = {!cut? x[n,c] + }add[n,c]
            mean[n] = sum_c ${normed} / C
            rstd[n] = 1/sqrt(sum_c (${normed} - mean[n])^2 / C + eps)
            y[n,c] = (${normed} - mean[n]) rstd[n] w[c] + b[c]`,
        layernorm_backward: layernormBackward,
        rmsnorm_forward: `
            r[n,c] = {!cut? x[n,c] + }add[n,c]
            rstd[n] = 1/sqrt(sum_c ${normed}^2 / C + eps)
            y[n,c] = ${normed} rstd[n] w[c]`,
        rmsnorm_backward: rmsnormBackward,
        head_rmsnorm_forward: `
            rstd[b,t,k] = 1/sqrt(sum_i x[b,t,k,i]^2 / HS + eps)
            y[b,t,h,i] = x[b,t,h,i] rstd[b,t,h] wq[i]
            y[b,t,NH + g,i] = x[b,t,NH + g,i] rstd[b,t,NH + g] wk[i]
            y[b,t,NH + NKV + g,i] = x[b,t,NH + NKV + g,i]`,
        head_rmsnorm_backward: `
            xh[b,t,k,i] = x[b,t,k,i] rstd[b,t,k]
            gq[b,t,h,i] = dy[b,t,h,i] wq[i]
            gk[b,t,g,i] = dy[b,t,NH + g,i] wk[i]
            dx[b,t,h,i] = rstd[b,t,h] (gq[b,t,h,i] - xh[b,t,h,i] sum_j gq[b,t,h,j] xh[b,t,h,j] / HS)
            dx[b,t,NH + g,i] = rstd[b,t,NH + g] (gk[b,t,g,i] - xh[b,t,NH + g,i] sum_j gk[b,t,g,j] xh[b,t,NH + g,j] / HS)
            dx[b,t,NH + NKV + g,i] = dy[b,t,NH + NKV + g,i]
            dwq[i] += sum_b sum_t sum_h dy[b,t,h,i] xh[b,t,h,i]
            dwk[i] += sum_b sum_t sum_g dy[b,t,NH + g,i] xh[b,t,NH + g,i]`,
        matmul_forward: `
            y[n,f] = {x_scale? 1/(x_scale W_scale) }sum_c x[n,c] {w_transposed? W[f,c]}{!w_transposed? W[c,f]}{b? + b[f]}
            act[n,f] = {then_gelu? y[n,f]/2 (1 + tanh(sqrt(2/pi) (y[n,f] + 0.044715 y[n,f]^3)))}{then_relu2? max(y[n,f], 0)^2}`,
        matmul_backward_input: `
            th[n,c] = tanh(sqrt(2/pi) (pre[n,c] + 0.044715 pre[n,c]^3))
            slope[n,c] = {then_gelu_backward? (1 + th[n,c])/2 + pre[n,c]/2 (1 - th[n,c]^2) sqrt(2/pi) (1 + 0.134145 pre[n,c]^2)}{then_relu2_backward? 2 max(pre[n,c], 0)}
            dx[n,c] = {dy_scale? 1/(dy_scale W_scale) }{pre? slope[n,c] }sum_f dy[n,f] {w_transposed? W[f,c]}{!w_transposed? W[c,f]}`,
        matmul_backward_weight: `
            {w_transposed? dW[f,c]}{!w_transposed? dW[c,f]} += {fp8? 1/(x_scale dy_scale) sum_n x[c,n] dy[f,n]}{!fp8? sum_n x[n,c] dy[n,f]}
            db[f] += sum_n dy[n,f]`,
        bias_forward: 'y[n,c] = x[n,c] + b[c]',
        bias_backward: 'db[c] += sum_n dy[n,c]',
        attention_forward: `
            ${softmax}
            att[b,h,t,s] = {!cut? [s <= t] }{starts? [starts[b,t] <= s] }exp(score[b,h,t,s]) / sum_r {!cut? [r <= t] }{starts? [starts[b,t] <= r] }exp(score[b,h,t,r])
            ${mixed('att[b,h,t,s]')}`,
        attention_backward: attentionBackward((s) => `att[b,h,t,${s}]`),
        flash_attention_forward: `
            ${weights}
            lse[b,h,t] = log(sum_r {!cut? [r <= t] }{starts? [starts[b,t] <= r] }exp(score[b,h,t,r]))
            ${mixed('W[b,h,t,s]')}`,
        flash_attention_backward: `
            ${softmax}
            W[b,h,t,s] = exp(score[b,h,t,s] - lse[b,h,t])
            ${attentionBackward((s) => `W[b,h,t,${s}]`)}`,
        gelu_forward: 'y[i] = x[i]/2 (1 + tanh(sqrt(2/pi) (x[i] + 0.044715 x[i]^3)))',
        gelu_backward: `
            th[i] = tanh(sqrt(2/pi) (x[i] + 0.044715 x[i]^3))
            dx[i] = dy[i] ((1 + th[i])/2 + x[i]/2 (1 - th[i]^2) sqrt(2/pi) (1 + 0.134145 x[i]^2))`,
        relu2_forward: 'y[i] = max(x[i], 0)^2',
        relu2_backward: 'dx[i] = 2 max(x[i], 0) dy[i]',
        swiglu_forward: 'y[n,f] = x[n,f]/(1 + exp(-x[n,f])) x[n,F + f]',
        swiglu_backward: `
            sig[n,f] = 1/(1 + exp(-x[n,f]))
            dx[n,f] = dy[n,f] x[n,F + f] (sig[n,f] + x[n,f] sig[n,f] (1 - sig[n,f]))
            dx[n,F + f] = dy[n,f] x[n,f] sig[n,f]`,
        rope: `
            angle[b,t,e] = {inverse? -}(t{starts? - starts[b,t]}) / theta^(2 e/HS)
            y[b,t,k,e] = x[b,t,k,e] cos(angle[b,t,e]) - x[b,t,k,e + HS/2] sin(angle[b,t,e])
            y[b,t,k,e + HS/2] = x[b,t,k,e] sin(angle[b,t,e]) + x[b,t,k,e + HS/2] cos(angle[b,t,e])
            y[b,t,NH + NKV + g,i] = x[b,t,NH + NKV + g,i]`,
        residual: 'y[i] = {!cut? a[i] + }b[i]',
        crossentropy_forward: losses,
        crossentropy_backward: dlogits,
        crossentropy_with_gradient: `${losses}
            ${dlogits}`,
        loss_mean: 'loss = sum_n losses[n] / max(1, sum_n [target[n] >= 0])',
        grad_sqnorm: 'sqnorm = sum_i g[i]^2',
        grad_clip: `
            norm = sqrt(sum_j sqnorm[j]){scaler? / scaler[0]}
            clip = ([max_norm = 0] + [max_norm > 0] min(1, max_norm/(norm + 0.000001))){scaler? / scaler[0]}`,
        scaler_update: `
            scaler[0] = [clip < 0] backoff scaler[0] + [clip >= 0] ([scaler[1] + 1 < interval] scaler[0] + [scaler[1] + 1 >= interval] growth scaler[0])
            scaler[1] = [clip >= 0] [scaler[1] + 1 < interval] (scaler[1] + 1)
            scaler[2] = scaler[2] + [clip < 0]`,
        adamw: `${moments('')}
            p[i] = p[i]{decay?  (1 - lr wd)} - lr (m'[i]/bc1) / (sqrt(v'[i]/bc2) + eps)
            ${copy}`,
        adam: `${moments('{decay? + wd p[i]}')}
            p[i] = p[i] - lr (m'[i]/bc1) / (sqrt(v'[i]/bc2) + eps)
            ${copy}`,
        sgd: `
            gc[i] = clip g[i]{decay? + wd p[i]}
            m[i] = momentum m[i] + gc[i]
            p[i] = p[i] - lr ([nesterov = 0] m'[i] + [nesterov > 0] (gc[i] + momentum m'[i]))
            ${copy}`,
        lion: `
            gc[i] = clip g[i]
            p[i] = p[i]{decay?  (1 - lr wd)} - lr sign(beta1 m[i] + (1 - beta1) gc[i])
            m[i] = beta2 m[i] + (1 - beta2) gc[i]
            ${copy}`,
        adamw8bit: `
            gc[i] = clip g[i]
            mm[i] = beta1 map_m(m[i]) m_max[floor(i/256)] + (1 - beta1) gc[i]
            vv[i] = beta2 map_v(v[i]) v_max[floor(i/256)] + (1 - beta2) gc[i]^2
            p[i] = p[i]{decay?  (1 - lr wd)} - lr (mm[i]/bc1) / (sqrt(vv[i]/bc2) + eps)
            m_max[k] = max_z [256 k + z < n] abs(mm[256 k + z])
            v_max[k] = max_z [256 k + z < n] abs(vv[256 k + z])
            m[i] = code_m(mm[i]/m_max'[floor(i/256)])
            v[i] = code_v(vv[i]/v_max'[floor(i/256)])
            ${copy}`,
        adafactor: `
            gc[r,c] = clip g[r,c]
            row[r] = beta2 row[r] + (1 - beta2) sum_c gc[r,c]^2 / C
            col[c] = beta2 col[c] + (1 - beta2) sum_r gc[r,c]^2 / R
            mean = max(sum_r row'[r] / R, eps)
            u[r,c] = gc[r,c]/sqrt(max(row'[r] col'[c] / mean, eps^2))
            rms_u = sqrt(sum_r sum_c u[r,c]^2 / (R C))
            rms_p = sqrt(sum_r sum_c p[r,c]^2 / (R C))
            p[r,c] = {decay? (1 - lr wd) }p[r,c] - rho max(eps2, rms_p) u[r,c] / max(1, rms_u/d)
            w[r,c] = p'[r,c]`,
        adafactor_vector: `
            gc[i] = clip g[i]
            v[i] = beta2 v[i] + (1 - beta2) gc[i]^2
            u[i] = gc[i]/sqrt(max(v'[i], eps^2))
            rms_u = sqrt(sum_i u[i]^2 / n)
            rms_p = sqrt(sum_i p[i]^2 / n)
            p[i] = p[i] - rho max(eps2, rms_p) u[i] / max(1, rms_u/d)`,
        muon_momentum: `
            m[i] = momentum m[i] + (1 - momentum) clip g[i]
            u[i] = [nesterov = 0] m'[i] + [nesterov > 0] ((1 - momentum) clip g[i] + momentum m'[i])`,
        normalize: '{w_transposed? x[c,r]}{!w_transposed? x[r,c]} = u[r,c] / max(sqrt(sqnorm), 0.0000001)',
        combine: 'y[i] = a x[i] + b z[i]',
        cast_fp8: `rows[n,c] = fp8(scale x[n,c])
            columns[c,n] = fp8(scale x[n,c])
            amax = max(amax, max_n max_c [abs(x[n,c]) >= 0] abs(x[n,c]))
            db[c] += sum_n x[n,c]`,
        scale_update: `
            history[s,i] = [s = 0] [finite(amax[i]) = 1] amax[i] + [s > 0] history[s - 1,i]
            most[i] = max_s history'[s,i]
            NaN = log(-1)
            power[i] = max(-60, min(60, floor(log2(a/most[i]))))
            scale[i] = [finite(amax[i]) = 1] ([most[i] = 0] scale[i] + [most[i] > 0] 2^power[i]) + [finite(amax[i]) = 0] NaN
            amax[i] = 0`,
        muon_update: `
            p[r,c] = {decay? (1 - lr wd) }p[r,c] - lr sqrt(max(1, R/C)) {w_transposed? x[c,r]}{!w_transposed? x[r,c]}
            w[r,c] = p'[r,c]`,
    };
})();
