"""Stands in for `python -m hf_sysgen.train` in tests of sweeps: prints, writes and ends as a plan says."""

import json
import sys
import time
from pathlib import Path

plan = json.loads(Path(sys.argv[1]).read_text())
run_dir = Path(plan["run_dir"])
run_dir.mkdir(parents=True, exist_ok=True)
recipe = plan["recipe"]
if plan["seed"] == 1 and Path("changed").exists():
    recipe = recipe.replace("learning_rate: 0.01", "learning_rate: 0.5")
(run_dir / "recipe.yaml").write_text(recipe)
with (run_dir / "starts").open("a") as starts:
    starts.write("started\n")
while Path("hold").exists():
    print("step 1/2", flush=True)
    time.sleep(0.02)
if plan["seed"] == 1 and Path("broken").exists():
    print("Traceback (most recent call last):\nRuntimeError: the disk is on fire", flush=True)
    sys.exit(1)
(run_dir / "results.json").write_text(json.dumps(plan["results"]))
