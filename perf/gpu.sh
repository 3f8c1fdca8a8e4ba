#!/usr/bin/env bash
# All that is measured on a GPU, the most telling first: perf/gpu.sh [--tiny] [STEP ...]
#
# Steps: kernels scan seeds attention decoder decoder_134M decoder_374M cogs cfq evaluation; default: all, in this
# order. JSON and logs go to $FOLDER (default runs/gpu). A step has at most $LIMIT seconds, and all together $TOTAL; what is
# left out is said. A step that fails or runs out of time stops no other one, and leaves the JSON that it has by then.
# $PY is a Python with torch and this package's requirements. cogs and cfq need HF_SYSGEN_DATA_DIR or the network.
# With --tiny everything shrinks, so that the list itself is tried, also without a GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
FOLDER=${FOLDER:-runs/gpu}
PY=${PY:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
LIMIT=${LIMIT:-480}
TOTAL=${TOTAL:-1750}
tiny=
if [ "${1:-}" = --tiny ]; then tiny=1; shift; fi
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$FOLDER"

train() {  # a recipe with overrides; its record is in $FOLDER/runs. A share of the paper's updates, evaluated once.
  "$PY" -m hf_sysgen.train "recipes/$1" "output_dir=$FOLDER/runs/$(basename "$1" .yaml)" training.report_to=none \
    training.eval_steps=null "${@:2}" \
    ${tiny:+training.max_steps=2 evaluation.examples=4 batches.size=8 data.benchmark=scan data.config=length_cutoff_40}
}

step_kernels() {  # Triton kernels against the reference: every shape, float32 and bfloat16
  if [ -n "$tiny" ]; then
    TRITON_INTERPRET=1 "$PY" perf/gpu_triangular_attention.py --check-only --interpreted
  else
    "$PY" -m pytest -q -m gpu --junitxml "$FOLDER/kernels.xml"
  fi
}
step_scan() {  # 50,000 updates of 256 with CUDA graphs; goal: 90 s and an accuracy of 1.00
  "$PY" perf/gpu_scan_row.py time --runs "$FOLDER/scan" --output "$FOLDER" \
    ${tiny:+--override training.max_steps=2 --override batches.size=4 --override evaluation.examples=4 \
      --override training.torch_compile=false --override training.torch_compile_mode=null}
}
step_seeds() {  # its row of Table 3, five runs at once
  "$PY" perf/gpu_scan_row.py row --variants relative_universal --runs "$FOLDER/row" --output "$FOLDER" \
    ${tiny:+--seeds 1 --at-once 1 --override training.max_steps=2 --override batches.size=4 \
      --override training.eval_steps=2 --override evaluation.examples=4 --override training.torch_compile=false \
      --override training.torch_compile_mode=null}
}
step_attention() {  # forward and backward beside einsum and the bound; goal: within 1.5 of it
  if [ -n "$tiny" ]; then "$PY" perf/triangular_attention.py --quick; else
    "$PY" perf/gpu_triangular_attention.py --no-check --output "$FOLDER/gpu_triangular_attention.json"
  fi
}
step_decoder() {  # tokens a second and the share of the peak, beside GPT-2 and Llama; goal: 55 %
  "$PY" perf/pretraining.py --output "$FOLDER/pretraining.json" $([ -n "$tiny" ] && echo --quick || echo --compile)
}
step_decoder_134M() {
  "$PY" perf/gpu_pretraining.py pretrain_134M_12 --output "$FOLDER/gpu_pretraining.json" ${tiny:+--quick}
}
step_decoder_374M() {
  "$PY" perf/gpu_pretraining.py pretrain_374M_24 --output "$FOLDER/gpu_pretraining_374M.json" ${tiny:+--quick}
}
# what costs a day of a CPU core: a tenth of the updates
step_cogs() {
  train csordas2021/cogs_relative_universal.yaml training.bf16=true training.max_steps=5000
}
step_cfq() {
  train csordas2021/cfq_relative_universal.yaml training.fp16=false training.bf16=true training.max_steps=5000
}
step_evaluation() {  # sequences a second, beside T5 and BART
  "$PY" perf/seq2seq.py --output "$FOLDER/seq2seq.json" ${tiny:+--quick}
}

ALL=(kernels scan seeds attention decoder decoder_134M decoder_374M cogs cfq evaluation)
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${ALL[@]}")
for step in "${steps[@]}"; do
  declare -F "step_$step" > /dev/null || { echo "no step $step; there are ${ALL[*]}" >&2; exit 2; }
done
export -f train $(declare -F | awk '/ step_/ {print $3}')
export FOLDER PY tiny
: > "$FOLDER/steps.jsonl"
failed=0
for step in "${steps[@]}"; do
  start=$SECONDS
  left=$((TOTAL - SECONDS))
  if [ "$left" -lt 10 ]; then
    echo "no time is left for $step" >&2
    failed=1
    continue
  fi
  timeout --kill-after=10 "$((LIMIT < left ? LIMIT : left))" bash -c "step_$step" > "$FOLDER/$step.log" 2>&1
  status=$?
  [ $status -eq 0 ] || failed=1
  printf '{"step": "%s", "status": %d, "seconds": %d}\n' "$step" "$status" $((SECONDS - start)) | tee -a "$FOLDER/steps.jsonl"
done
exit $failed
