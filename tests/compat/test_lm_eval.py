"""lm-evaluation-harness runs the tasks that this package writes, and counts as this package does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from made_examples import any_benchmark
from tiny_runs import tiny_recipe
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

import hf_sysgen.training.tasks.registry
from hf_sysgen.data import load_benchmark
from hf_sysgen.evaluation.checkpoints import load_checkpoint, predict
from hf_sysgen.evaluation.lm_eval import tasks, write_tasks
from hf_sysgen.training.run import run_recipe
from hf_sysgen.zoo import DEFAULT

TOOL = "lm_eval"
lm_eval = pytest.importorskip("lm_eval", reason="needs lm-eval: pip install 'hf-sysgen[compat]'")

from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.model import LM  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> TaskManager:
    folder = tmp_path_factory.mktemp("tasks")
    write_tasks(folder)
    return TaskManager(include_path=str(folder), include_defaults=False)


def run(model: LM, task: str, manager: TaskManager, limit: int, shots: int) -> SimpleNamespace:
    found = lm_eval.simple_evaluate(
        model, tasks=[task], num_fewshot=shots, limit=limit, task_manager=manager, bootstrap_iters=0, log_samples=True
    )
    return SimpleNamespace(scores=found["results"][task], samples=found["samples"][task])


def test_every_task_is_known(manager: TaskManager) -> None:
    names = {task.name for task in tasks()}
    assert names <= set(manager.all_tasks)
    assert {"sysgen_scan_length_cutoff_26_test", "sysgen_cogs_gen_2020_test", "sysgen_cfq_mcd1_test"} <= names
    assert len(names) > 100


class Zoo(LM):
    """Answers with a trained model of this package, which reads the last input alone."""

    def generate_until(self, requests) -> list[str]:
        inputs = [one.args[0].rpartition("Input: ")[2].removesuffix("\nOutput:") for one in requests]
        answers, _ = predict(*load_checkpoint(DEFAULT), inputs)
        return [f" {answer}" for answer in answers]

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def test_counts_as_this_package_does(manager: TaskManager) -> None:
    """Example by example, with documents in the order of the benchmark."""
    count = 60
    found = run(Zoo(), "sysgen_scan_length_cutoff_26_test", manager, count, shots=2)
    rows = load_benchmark("scan", "length_cutoff_26")["test"].select(range(count))
    answers, _ = predict(*load_checkpoint(DEFAULT), rows["input"][:])
    exact = [float(answer == target) for answer, target in zip(answers, rows["target"][:], strict=True)]
    samples = sorted(found.samples, key=lambda sample: sample["doc_id"])
    assert [sample["doc"]["input"] for sample in samples] == rows["input"][:]
    assert [sample["exact_match"] for sample in samples] == exact
    assert found.scores["exact_match,none"] == pytest.approx(sum(exact) / count)
    assert 0 < sum(exact) < count
    train = set(load_benchmark("scan", "length_cutoff_26")["train"]["input"])
    for sample in samples:
        _, *shown, asked = sample["arguments"][0][0].split("Input: ")
        assert len(shown) == 2
        assert {text.split("\nOutput: ")[0] for text in shown} <= train
        assert asked == f"{sample['doc']['input']}\nOutput:"


def test_a_causal_model_writes_a_line(manager: TaskManager, tmp_path: Path) -> None:
    """Any model of transformers; the answer ends with its line."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = Tokenizer(models.BPE({chr(code): code for code in range(128)}, []))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="\x00", pad_token="\x00")
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=4096, n_embd=8, n_layer=1, n_head=1)).eval()
    found = run(HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1), "sysgen_cogs_vf_current_test", manager, 2, 1)
    for sample in found.samples:
        (answer,) = sample["resps"][0]
        assert "\n" not in answer
        assert sample["exact_match"] == float(answer.split() == sample["doc"]["target"].split())
    categories = {sample["doc"]["category"] for sample in found.samples}
    assert {f"exact_match_{category},none" for category in categories} <= found.scores.keys()


def test_loglikelihood_is_that_of_the_continuation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a fine-tuned decoder, whose prompts end in a separator, and of a language model, whose tokenizer had EOS."""
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark)
    tuned = tiny_recipe(tmp_path, model="depth_width_decoder", joint_vocabulary=True, num_hidden_layers=2)
    run_recipe(tuned)
    folder = tmp_path / "run" / "model"
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pairs = [("jump twice", "I_JUMP I_JUMP"), ("run left", "I_TURN_LEFT"), ("look", "I_LOOK I_RUN I_WALK")]
    asked, expected = [], []
    for source, target in pairs:
        context = model.config.prompt_template.replace("{input}", source)
        prompt = [*tokenizer(source)["input_ids"], tokenizer.bos_token_id]
        ids = tokenizer(target, add_special_tokens=False)["input_ids"]
        logits = model(input_ids=torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        expected.append(float(logits.gather(1, torch.tensor(ids)[:, None]).sum()))
        asked.append(Instance("loglikelihood", {}, (context, f" {target}"), 0))
    found = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1).loglikelihood(asked)
    assert [score for score, _ in found] == pytest.approx(expected, abs=1e-4)
