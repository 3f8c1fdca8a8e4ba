#!/usr/bin/env bash
# What is measured on a GPU in half an hour, the most telling first: perf/gpu.sh [--tiny] [STEP ...]
#
# A step is one command with a limit of seconds and a JSON that it leaves; default: all of `list` below. A step that
# fails, runs out of time or leaves no JSON stops no other one; the exit status is then 1. A training resumes when it is
# started again. With --tiny everything shrinks, so that the list itself is tried, also without a GPU, and there is an
# hour for all, as a slow core takes longer than a GPU. Variables:
#
# FOLDER              of JSON and logs; default runs/gpu. steps.jsonl has the status and seconds of each step
# TOTAL               seconds of all steps together; default 1750, with --tiny 3600. What does not fit is cut short or left
#                     out
# LIMIT               seconds of each step; default: what the list says, with --tiny 3600
# PY                  a Python with the package's dependencies; default python3. The package itself is taken from src
# HF_SYSGEN_DATA_DIR  the folder of upstream files (see load_benchmark), for cogs and cfq
set -uo pipefail
cd "$(dirname "$0")/.."
FOLDER=${FOLDER:-runs/gpu}
PY=${PY:-python3}
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"

kernels=() times=(--time-only) quick=() decoder=(--compile) small=() tests=()
row=(--recipes csordas2021/scan_length26_relative_universal)
# few enough to end in time: an update took 11 ms on an H200
scan=(--steps 10000)
# a fifth of the paper's updates
row+=(--override training.max_steps=10000 --override training.eval_steps=null)
# large batches of evaluation: a model after few updates writes up to the limit
cogs=(batches.length_buckets=1 training.max_steps=2500 evaluation.batch_size=4096)
cfq=(training.fp16=false training.max_steps=350 evaluation.batch_size=4096)
if [ "${1:-}" = --tiny ]; then
  shift
  quick=(--quick) decoder=(--quick) tests=(--collect-only)
  kernels=(--interpreted) times+=(--quick)
  export TRITON_INTERPRET=1
  LIMIT=${LIMIT:-3600} TOTAL=${TOTAL:-3600}
  small=(training.max_steps=2 training.bf16=false evaluation.examples=4 batches.size=8)
  words=() scan=(--steps 2)
  for word in "${small[@]}" training.torch_compile=false training.torch_compile_mode=null; do words+=(--override "$word"); done
  scan+=("${words[@]}") row+=(--seeds 1 "${words[@]}")
  small+=(data.benchmark=scan data.config=length_cutoff_40)  # whose test is short
fi
TOTAL=${TOTAL:-1750}

train() {  # NAME LIMIT RECIPE OVERRIDE ...: a training, whose record is its JSON
  step "$1" "$2" "runs/$1/results.json" -m hf_sysgen.train "recipes/$3.yaml" "output_dir=$FOLDER/runs/$1" \
    training.report_to=none training.eval_steps=null training.save_steps=500 training.bf16=true "${@:4}"
}
list() {
  # Triton kernels against the plain version: every shape that is timed, and odd ones
  step kernels 200 kernels.json perf/gpu_triangular_attention.py --check-only "${kernels[@]}" --output "$FOLDER/kernels.json"
  # the tests that need a GPU; those of the kernels are the step before. Each compiles for most of its time, on one core.
  # pytest-benchmark, where it is installed, warns of xdist, and warnings are errors
  step tests 300 tests.xml -m pytest -q -m gpu -k "not kernels" -n 6 -p no:benchmark tests/training/test_gpu.py "${tests[@]}" \
    --junitxml "$FOLDER/tests.xml"
  # tokens a second, the share of the peak, and the days of all updates; goal: 55 % of the peak
  step pretraining_374M 240 pretraining_374M.json perf/gpu_pretraining.py pretrain_374M_24 "${quick[@]}" \
    --output "$FOLDER/pretraining_374M.json"
  # 10,000 updates of 256 with CUDA graphs; goal: 18 s
  step scan 300 gpu_scan_time.json perf/gpu_scan_row.py time --runs "$FOLDER/runs/scan" --output "$FOLDER" "${scan[@]}"
  # forward and backward beside the plain version and the bound; goal: within 1.5 of it
  step attention 200 attention.json perf/gpu_triangular_attention.py "${times[@]}" --output "$FOLDER/attention.json"
  # a cell of Table 3, five seeds at once
  step seeds 300 gpu_scan_row.json perf/gpu_scan_row.py row --runs "$FOLDER/runs/seeds" --output "$FOLDER" "${row[@]}"
  # an update beside GPT-2 and Llama
  step decoder 150 decoder.json perf/pretraining.py "${decoder[@]}" --output "$FOLDER/decoder.json"
  step pretraining_134M 120 pretraining_134M.json perf/gpu_pretraining.py pretrain_134M_12 "${quick[@]}" \
    --output "$FOLDER/pretraining_134M.json"
  # what costs days of a CPU core: 5 % of the updates of COGS, 1 % of those of CFQ
  train cogs 150 csordas2021/cogs_relative_universal "${cogs[@]}" "${small[@]}"
  train cfq 200 csordas2021/cfq_relative_universal "${cfq[@]}" "${small[@]}"
  # sequences a second, beside T5 and BART
  step evaluation 150 seq2seq.json perf/seq2seq.py "${quick[@]}" --output "$FOLDER/seq2seq.json"
}

# first only their names
names=()
step() { names+=("$1"); }
list
for name in "$@"; do
  [[ " ${names[*]} " == *" $name "* ]] || { echo "no step $name; there are ${names[*]}" >&2; exit 2; }
done
wanted=" ${*:-${names[*]}} "

failed=0
mkdir -p "$FOLDER"
: > "$FOLDER/steps.jsonl"
step() {  # NAME LIMIT JSON ARGUMENT ...: of Python
  local name=$1 limit=${LIMIT:-$2} file=$FOLDER/$3 start=$SECONDS status=null left=$((TOTAL - SECONDS))
  [[ $wanted == *" $name "* ]] || return 0
  if [ $left -gt 0 ]; then
    # as by Ctrl-C, so that pytest shows what has failed by then
    timeout --signal=INT --kill-after=10 $((limit < left ? limit : left)) "$PY" "${@:4}" > "$FOLDER/$name.log" 2>&1
    status=$?
  fi
  [ "$status" = 0 ] && [ -s "$file" ] || failed=1
  printf '{"step": "%s", "status": %s, "seconds": %d, "json": %s}\n' "$name" "$status" $((SECONDS - start)) \
    "$([ -s "$file" ] && echo true || echo false)" | tee -a "$FOLDER/steps.jsonl"
}
list
exit $failed
