#!/bin/sh
# make_corpus.sh STEPMARK: rewrites the corpora's first inputs, all made by this program or by this script. The same
# folders hold the inputs that the fuzzers found since.
set -eu
stepmark=$(realpath "$1")
corpus=$(realpath "$(dirname "$0")")/corpus
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for name in safetensors weights weights_index hf_config tokens npy rows sweep_log tuning opencl_cache flags sweep_lines tokenizer added_tokens pretokens questions; do
    mkdir -p "$corpus/$name"
done

# A model with every kind of parameter, and its optimizer after a step.
printf '\000\001\002\000\001\002\000\001' >ids.bin
"$stepmark" train --init --d-model 2 --n-head 1 --n-layer 1 --vocab 3 --context 2 --d-ff 3 --save model 2>/dev/null
"$stepmark" train --weights model --steps 1 -b 1 --seq-len 2 -t 1 --data ids.bin --data-format bytes --save model >train.txt 2>&1
cp model/model.safetensors model/optimizer.safetensors "$corpus/safetensors/"
printf '\000' | cat - model/model.safetensors >"$corpus/weights/model"
printf '\001' | cat - model/optimizer.safetensors >"$corpus/weights/optimizer"
{
    printf '\104\074\000\000\000\000\000\000\000{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}       '
    printf '{"metadata":{"total_size":0},"weight_map":{"x":"a"}}'
} >"$corpus/weights_index/one"
printf '\000{"weight_map":{"x":"a","y":"../b.safetensors","z":"b.safetensors"}}' >"$corpus/weights_index/outside"
cp model/config.json "$corpus/hf_config/config"
"$stepmark" train --init --arch llama --d-model 4 --n-head 2 --n-kv-head 1 --n-layer 1 --vocab 3 --context 2 --save llama 2>/dev/null
cp llama/config.json "$corpus/hf_config/llama"
"$stepmark" train --init --arch qwen3 --d-model 4 --n-head 2 --n-kv-head 1 --n-layer 1 --vocab 3 --context 2 --save qwen3 2>/dev/null
cp qwen3/config.json "$corpus/hf_config/qwen3"

# Rows: of a run, of one that cannot be, an array, one cut short, damaged objects, no rows.
"$stepmark" run -m tiny --backend cpu -t 1 -b 1 --seq-len 8 -r 3 --no-peaks -o jsonl >rows.jsonl 2>/dev/null
sed 's/"context": {.*}}$/"context": {}}/; s/"context":{.*}}$/"context":{}}/' rows.jsonl >row.jsonl
"$stepmark" run -m tiny --backend cpu -t 1 -b 1 --seq-len 8 -r 3 --no-peaks --precision fp16 -o jsonl 2>/dev/null |
    sed 's/"context":{.*}}$/"context":{}}/' >refused.jsonl || true
cp row.jsonl "$corpus/rows/row"
cp refused.jsonl "$corpus/rows/refused"
{ printf '[' && cat row.jsonl && printf ',' && cat refused.jsonl && printf ']'; } | head -c 3000 >"$corpus/rows/cut"
printf '{"status":"ok","median_ns":5,"samples_ns":[1,2.5,null,"x",-1,1e308],"schema_version":999}\n{"a":' >"$corpus/rows/newer"
printf '{"a" 1}\n{"status":"ok"\n{{{[[[\n{"median_ns":7}\nno JSON at all\n' >"$corpus/rows/damaged"
printf '{"median_ns":7},\n{"a":[\n' >"$corpus/rows/unclosed"
printf '# a text\n\n    of another kind\n' >"$corpus/rows/text"
printf '{"sweep_key":"a","status":"ok","median_ns":5}\n{"sweep_key":"b","status":"oom"}\n' >"$corpus/sweep_log/rows"
printf '{"sweep_key":"a","status":"ok"}\n{"sweep_key":"b","sta' >"$corpus/sweep_log/cut"
cp refused.jsonl "$corpus/sweep_log/refused"

# Token ids: a byte for the format, two for the vocabulary, the file.
printf '\003\002\000' | cat - ids.bin >"$corpus/tokens/bytes"
printf '\004\377\377\001\000\002\000\003\000\004\000\005\000\006\000\007\000\010\000\011\000\012\000\013\000' >"$corpus/tokens/uint16"
printf '\004\003\000\001\000\002\000\011\000' >"$corpus/tokens/too_large"
{
    printf '\007\377\377\210\330\064\001\001\000\000\000\014\000\000\000'
    head -c 1012 /dev/zero
    printf '\001\000\002\000\003\000\004\000\005\000\006\000\007\000\010\000\011\000\012\000\013\000\014\000'
} >"$corpus/tokens/llmc"

# A text, lines of JSON, wider ids, an array of each order of bytes, and beginnings of other files.
printf '\001\000\001words, \303\251t\303\251 and more' >"$corpus/tokens/text"
printf '\000\000\001{"text": "a \\u00e9 b"}\n\n{"id": 5, "text": ""}\n{"text": "c"}' >"$corpus/tokens/jsonl"
printf '\005\377\377\001\000\000\000\005\001\000\000' >"$corpus/tokens/uint32"
printf '\006\377\377\001\000\000\000\000\000\000\000\005\001\000\000\000\000\000\000' >"$corpus/tokens/int64"
printf '\000\377\377PK\003\004\024\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\005\000\000\000a.npyabc' >"$corpus/tokens/zip"
printf '\000\377\377\003\000\000\000\000\000\000\000\260\231\111\016abc\000\000\000\000' >"$corpus/tokens/tfrecord"
printf '\000\377\377\200\002}q\000X\003\000\000\000abcq\001.' >"$corpus/tokens/pickle"
array() { printf '\223NUMPY%b\000%b\000%s' "$1" "$2" "$3"; }
{ array '\001' '\100' "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }       " && printf '\005\000\064\302'; } >"$corpus/npy/little"
{ array '\001' '\100' "{'descr': '>i8', 'fortran_order': False, 'shape': (1, 1L), }    " && printf '\000\000\000\000\000\001\302\064'; } >"$corpus/npy/big"
{ array '\003' '\064\000\000' '{"shape":(),"descr":"|u1","fortran_order":True}     ' && printf '\005'; } >"$corpus/npy/one"
array '\001' '\076' "{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': ()}" >"$corpus/npy/records"
{ printf '\010\377\377' && cat "$corpus/npy/little"; } >"$corpus/tokens/npy"

printf '{"stepmark_tuning":1,"key":"KEY","choices":{"a":"b","matmul_forward 8x8x8":"depth=768"}}' >"$corpus/tuning/choices"
printf '{"stepmark_tuning":2,"key":"other","choices":{"a":1}}' >"$corpus/tuning/other"

# A byte for the hash; magic, sizes of key and binary, hash, key, binary.
printf '\000smoclb1\000\004\000\000\000\000\000\000\000\006\000\000\000\000\000\000\000hashhashfuzzbinary' >"$corpus/opencl_cache/entry"
printf '\001smoclb1\000\004\000\000\000\000\000\000\000\377\377\377\377\377\377\377\377hashhashfuzz' >"$corpus/opencl_cache/sizes"

printf '\001-m tiny -b 1,2,4-64*2 --seq-len 8-32+8 --mode naive,fused -t 1 -r 3 --dropout 0.1 -o csv' >"$corpus/flags/run"
printf '\005--steps 3 --lr 1e-3 --schedule cosine --accum 2 --beta1 0.9 --grad-clip 1 --without first_write' >"$corpus/flags/train"
printf '\011--preset sizes --resume --output-file a --rounds 3 --order given --filter x' >"$corpus/flags/sweep"
printf '\013--interleaved --pairs 3 --across mode,isa a b --treshold 1' >"$corpus/flags/compare"
printf '\006--filter ^bias --max-elems 100 --precision fp32,bf16 --isa local --seed 18446744073709551616' >"$corpus/flags/verify"

printf '# sizes\n-m tiny,small -b 1,2 --seq-len 8-16+8\n\n-m medium -t CORES --mode naive,fused # more\n' >"$corpus/sweep_lines/two"
printf -- '--batch-size=1-64*2 --precision fp32,bf16 --without first_write,loss_head --pass-type separate\n' >"$corpus/sweep_lines/one"
printf -- '-b 1-256 --seq-len 1-256 --n-layer 1-9 -r 1-9\n--nonsense\n' >"$corpus/sweep_lines/many"

# A tokenizer of the bytes and three merges, in both formats: a byte says which.
printf 'the then theatre the then theatre' >text.txt
"$stepmark" tokenize --vocab-size 260 --output vocabulary text.txt >/dev/null
{
    printf '\000{"added_tokens":[{"id":0,"content":"<|endoftext|>","special":true}],"pre_tokenizer":{"type":"ByteLevel"},"model":{"vocab":'
    cat vocabulary/vocab.json
    sed -n '2,$s/.*/"&",/p' vocabulary/merges.txt | tr -d '\n' | sed 's/^/,"merges":[/; s/,$/]}}/'
} >"$corpus/tokenizer/json"
{ printf '\001' && cat vocabulary/vocab.json && printf '\377' && cat vocabulary/merges.txt; } >"$corpus/tokenizer/pair"
printf '\000{"model":{"type":"BPE","vocab":{"a":0,"b":99999999999},"merges":[["a","b"],"a b c",7]}}' >"$corpus/tokenizer/odd"
printf '{"added_tokens_decoder":{"259":{"content":"ab a","normalized":true},"258":{"content":"XX","special":true}}}' >"$corpus/added_tokens/decoder"
printf '{"pad_token":"a"}\377{"mask_token":{"content":"<y>"},"additional_special_tokens":["b a"]}\377{"XX":258,"<y>":259,"a":64}' >"$corpus/added_tokens/three"
printf "I'll take 12, don't you? \\n\\n  \303\251t\303\251 \346\227\245\346\234\254\343\200\200x  end\t" >"$corpus/pretokens/text"
printf 'a\377 \342\202 b\355\240\200 \360\237\230\n\302\205 \341\240\216x \360\221\240' >"$corpus/pretokens/invalid"

printf '\357\273\277\n{"ctx":"a","endings":["b","c"],"label":1}\r\n\n{"ctx":"d","endings":["e","f","g"],"label":"2"}\n' >"$corpus/questions/two"
printf '{"ctx":"a","endings":["b","c"],"label":1.0}\n{"label":null}\n' >"$corpus/questions/odd"
