// step_names.js: names for people next to the plan's own: "h.1.d.x.ln1" is "the gradient of norm 1's input, block 1".
// `names` here.
const names = (() => {
    // The stem of a name, without its block.
    const stems = {
        'wte.weight': 'the table of tokens', 'embed_tokens.weight': 'the table of tokens', 'wpe.weight': 'the table of positions', 'lm_head.weight': 'the head’s matrix',
        tokens: 'the token ids', targets: 'the ids of the next tokens', starts: 'where documents begin', hyper: 'the step’s settings', rng_step: 'the counter of random numbers',
        losses: 'the loss of each token', loss: 'the loss', grad_norm: 'the length of all gradients together', clip: 'the factor that bounds it', loss_scale: 'the weight of a token’s loss', loss_scaler: 'the factor against gradients too small for 16 bits',
        sqnorms: 'the sums of squares', encoded: 'the embedded tokens', x: 'the stream', qkv: 'queries, keys and values', att: 'the attention weights', atty: 'the mean of values', attproj: 'what attention adds to the stream',
        res1: 'the stream after attention', res2: 'the stream after the block', fc: 'the MLP’s hidden layer', gate_up: 'the MLP’s gate and hidden layer', gelu: 'the MLP’s hidden layer after GELU', relu2: 'the MLP’s hidden layer after squared ReLU', act: 'the MLP’s hidden layer after its gate',
        mlpproj: 'what the MLP adds to the stream', down: 'what the MLP adds to the stream', logits: 'the logits', 'x.ln1': 'norm 1’s input', 'x.norm1': 'norm 1’s input', 'res1.ln2': 'norm 2’s input', 'res1.norm2': 'norm 2’s input',
    };
    const patterns = [
        [/^(?:matrices|vectors)\.\d+$/, (s) => `all ${s.split('.')[0]}`], [/^sqnorms\.\d+$/, () => 'a sum of squares'],
        [/^(?:ln|norm)(1|2)$/, (s) => `norm ${s.at(-1)}’s output`], [/^(?:lnf|normf)$/, () => 'the last norm’s output'],
        [/^(?:ln_(1|2)|input_layernorm|post_attention_layernorm)\.(?:weight|bias)$/, (s) => `norm ${/1|input/.test(s) ? 1 : 2}’s ${/weight/.test(s) ? 'scale' : 'shift'}`],
        [/^(?:ln_f|norm)\.(?:weight|bias)$/, (s) => `the last norm’s ${/weight/.test(s) ? 'scale' : 'shift'}`],
        [/^self_attn\.[qk]_norm\.weight$/, (s) => `the scale of ${/q_norm/.test(s) ? 'queries' : 'keys'}`],
        [/^(?:attn\.c_attn|self_attn\.qkv_proj)\./, (s) => `the ${kindOf(s)} for queries, keys and values`],
        [/^self_attn\.[qkv]_proj\./, (s) => `the ${kindOf(s)} for ${{q: 'queries', k: 'keys', v: 'values'}[s[10]]}`],
        [/^(?:attn\.c_proj|self_attn\.o_proj)\./, (s) => `attention’s last ${kindOf(s)}`],
        [/^mlp\.(?:c_fc|gate_up_proj|gate_proj|up_proj)\./, (s) => `the MLP’s first ${kindOf(s)}`], [/^mlp\.(?:c_proj|down_proj)\./, (s) => `the MLP’s second ${kindOf(s)}`],
    ];
    const kindOf = (s) => (/bias$/.test(s) ? 'bias' : 'matrix');
    const befores = {d: 'the gradient of', grads: 'the gradients of', params: '', m: 'the running mean of the gradient of', v: 'the running mean square of the gradient of', m_max: 'the largest running mean of the gradient of', v_max: 'the largest running mean square of the gradient of',
        row: 'the mean squares of the gradient’s rows of', col: 'the mean squares of the gradient’s columns of', f16: 'the 16-bit copy of', bf16: 'the 16-bit copy of', 'muon.u': 'the momentum of', 'muon.x': 'the update of', 'muon.sqnorm': 'the sum of squares for',
        'muon.gram': 'the update’s products of rows, of', 'muon.square': 'their square, of', 'muon.poly': 'the polynomial of them, of', 'muon.px': 'the polynomial times the update, of'};
    const afters = {xw: ', before the bias', mean: ': the mean of each row', rstd: ': 1 over the spread of each row', lse: ': the log of the sum of exp', dropped: ', after dropout', again: ', computed again', normed: ', normalised', turned: ', turned by position', turned_back: ', turned back', chunk: ', some rows', blocks: ', in blocks'};

    const stemText = (stem) => stems[stem] || patterns.find(([pattern]) => pattern.test(stem))?.[1](stem);
    // The meaning of a tensor; '': it has no name except its own.
    const of = (name) => {
        const block = /(?:^|\.)(?:h|layers)\.(\d+)\./.exec(name)?.[1];
        let rest = name.replace(/\[\d+:\d+\]/g, '').replace(/(^|\.)(?:model\.)?(?:h|layers)\.\d+\./, '$1').replace(/(^|\.)model\./, '$1');
        let front = '', back = '';
        for (;;) {
            const before = /^(muon\.[a-z]+)\.\d+\./.exec(rest) || /^([a-z0-9_]+)\./.exec(rest);
            if (stemText(rest) || !before || befores[before[1]] === undefined) break;
            front += befores[before[1]] && befores[before[1]] + ' ';
            rest = rest.slice(before[0].length);
        }
        for (let after; !stemText(rest) && (after = /\.([a-z_]+)$/.exec(rest)) && afters[after[1]];) {
            back = afters[after[1]] + back;
            rest = rest.slice(0, -after[0].length);
        }
        const text = stemText(rest);
        return text ? (front + text + back).replace('’s output: ', ': ') + (block === undefined ? '' : `, block ${block}`) : '';
    };
    return {of};
})();
