#!/usr/bin/env bash
# All that is measured on a GPU, the most telling first, each step with a limit of time: perf/gpu.sh [--tiny] [STEP ...]
#
# Steps: kernels scan seeds attention decoder rows evaluation; default: all. JSON and logs go to $FOLDER (default
# runs/gpu). A step that fails or runs out of time stops no other one, and a training resumes when it is started again.
# With --tiny everything shrinks, so that the list itself is tried, also without a GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
FOLDER=${FOLDER:-runs/gpu}
BIN=${BIN:-.venv/bin}
LIMIT=${LIMIT:-480}
tiny=
if [ "${1:-}" = --tiny ]; then tiny=1; shift; fi
mkdir -p "$FOLDER"

train() {  # a recipe with overrides; the record to $FOLDER
  "$BIN"/hf-sysgen train "recipes/$1" "output_dir=$FOLDER/runs/$(basename "$1" .yaml)" training.report_to=none "${@:2}" \
    ${tiny:+training.max_steps=2 training.eval_steps=2 evaluation.examples=4 batches.size=8 \
      data.benchmark=scan data.config=length_cutoff_40}  # whose test is short
}

step_kernels() {  # Triton kernels against the reference: every shape, float32 and bfloat16
  if [ -n "$tiny" ]; then
    TRITON_INTERPRET=1 "$BIN"/python perf/gpu_triangular_attention.py --check-only --interpreted
  else
    "$BIN"/python -m pytest -q -m gpu
  fi
}
step_scan() {  # 50,000 updates of 256 with CUDA graphs; goal: 90 s and an accuracy of 1.00
  "$BIN"/python perf/gpu_scan_row.py time --runs "$FOLDER/scan" --output "$FOLDER" \
    ${tiny:+--override training.max_steps=2 --override batches.size=4 --override evaluation.examples=4 \
      --override training.torch_compile=false --override training.torch_compile_mode=null}
}
step_seeds() {  # the row of Table 3, five runs at once
  "$BIN"/python perf/gpu_scan_row.py row --runs "$FOLDER/row" --output "$FOLDER" \
    ${tiny:+--seeds 1 --at-once 1 --override training.max_steps=2 --override batches.size=4 \
      --override training.eval_steps=2 --override evaluation.examples=4 --override training.torch_compile=false \
      --override training.torch_compile_mode=null}
}
step_attention() {  # forward and backward beside einsum and the bound; goal: within 1.5 of it
  if [ -n "$tiny" ]; then "$BIN"/python perf/triangular_attention.py --quick --output "$FOLDER/triangular_attention.json"; else
    "$BIN"/python perf/gpu_triangular_attention.py --output "$FOLDER/gpu_triangular_attention.json"
  fi
}
step_decoder() {  # tokens a second and the share of the peak, beside GPT-2 and Llama; goal: 55 %
  "$BIN"/python perf/pretraining.py --output "$FOLDER/pretraining.json" $([ -n "$tiny" ] && echo --quick || echo --compile)
  "$BIN"/python perf/gpu_pretraining.py pretrain_134M_12 --output "$FOLDER/gpu_pretraining.json" ${tiny:+--quick}
}
step_rows() {  # what costs a day of a CPU core; as far as the time goes
  train csordas2021/cogs_relative_universal.yaml training.bf16=true
  train csordas2021/cfq_relative_universal.yaml training.fp16=false training.bf16=true
  "$BIN"/python perf/gpu_pretraining.py pretrain_374M_24 --output "$FOLDER/gpu_pretraining_374M.json" ${tiny:+--quick}
}
step_evaluation() {  # sequences a second, beside T5 and BART
  "$BIN"/python perf/seq2seq.py --output "$FOLDER/seq2seq.json" ${tiny:+--quick}
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(kernels scan seeds attention decoder rows evaluation)
export -f train $(declare -F | awk '/ step_/ {print $3}')
export FOLDER BIN tiny
failed=0
for step in "${steps[@]}"; do
  declare -F "step_$step" > /dev/null || { echo "no step $step; there are $(declare -F | sed -n 's/.* step_//p' | xargs)" >&2; exit 2; }
  start=$SECONDS
  timeout --kill-after=10 "$LIMIT" bash -c "set -e; step_$step" > "$FOLDER/$step.log" 2>&1
  status=$?
  [ $status -eq 0 ] || failed=1
  printf '{"step": "%s", "status": %d, "seconds": %d}\n' "$step" "$status" $((SECONDS - start)) | tee -a "$FOLDER/steps.jsonl"
done
exit $failed
