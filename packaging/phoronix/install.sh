#!/bin/sh
# Unpacks the folder of `make tarball`, and writes the script that the suite runs: it prints the median tokens/s.
set -eu
tar -xzf stepmark-*-linux-*.tar.gz
cat >stepmark <<'RUN'
#!/bin/sh
rows=$(mktemp -d)
./stepmark-*-linux-*/bin/stepmark score --backend cpu "$@" -q -o csv --output-file "$rows/score.jsonl" >"$rows/score.csv"
echo $? >~/test-exit-status
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "median_ts") c = i } NR == 2 { print "rate: " $c }' "$rows/score.csv" >"$LOG_FILE"
rm -r "$rows"
RUN
chmod +x stepmark
