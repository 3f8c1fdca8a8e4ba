# One word for each chore. Everything runs in .venv, made from constraints.txt; nothing but the package registry is needed.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# an index of CPU wheels, for machines without a GPU whose registry would send the CUDA build
TORCH_INDEX ?=

.PHONY: help install run test test-slow test-gpu test-compat check bench docs clean

help:  ## this text
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# torch first and pinned: a range would take the newest build with several gigabytes of CUDA packages. Without byte code,
# which Python makes of the few modules that it imports
define install
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --no-compile $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$$(grep ^torch== constraints.txt)"
	$(BIN)/pip install -q --no-compile -c constraints.txt -e "$(1)"
	touch $(VENV)/installed
endef

$(VENV)/installed: pyproject.toml constraints.txt
	$(call install,.)

# also what tests, checks and the site need. With the byte code of all modules: where Python may write none, every process
# of the tests would compile them. Files for other versions of Python do not compile
$(VENV)/tools: pyproject.toml constraints.txt
	$(call install,.[dev])
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@

install: $(VENV)/installed  ## only the virtual environment; then: source .venv/bin/activate

run: $(VENV)/installed  ## the main job: train two variants on SCAN, compare, plot, translate without this package
	$(BIN)/hf-sysgen sweep recipes/speedruns/sweeps/scan_length26.yaml --plot runs/speedrun_scan_length26.png
	$(BIN)/hf-sysgen predict -c runs/speedrun_scan_length26_relative_universal/seed0 --isolated \
	  "jump around left thrice and walk opposite right thrice" \
	  "look around right thrice after run around left thrice" \
	  "walk opposite left thrice and look around right thrice"

# one thread a worker: two workers with two threads each are slower than two with one; worksteal, so that a file stays
# with one worker and what its tests share is made once
test: $(VENV)/tools  ## the default test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q

test-slow: $(VENV)/tools  ## the tests that take minutes each
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow -q

test-gpu: $(VENV)/tools  ## the tests that need a GPU
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 --dist worksteal -m gpu -q

test-compat: $(VENV)/tools  ## other packages' tools on every model; writes what docs/compatibility.md shows
	$(BIN)/pip install -q -c constraints.txt -e ".[dev,compat]"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not gpu" -q tests/compat --compat-json perf/compat.json

check: $(VENV)/tools  ## lint, format, types, who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_imports.py

bench: $(VENV)/installed  ## speed of training and decoding beside T5 and BART, and of gated attention beside its base
	$(BIN)/python perf/seq2seq.py
	$(BIN)/python perf/gated_attention.py

docs: $(VENV)/tools  ## the site, in build/site/index.html
	env -u HF_SYSGEN_EXTENSIONS $(BIN)/python -m mkdocs build --strict

clean:  ## remove the virtual environment and build files
	rm -rf $(VENV) build dist src/*.egg-info
