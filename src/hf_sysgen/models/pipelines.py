"""Pipelines that travel with a checkpoint: `pipeline(model=CHECKPOINT, trust_remote_code=True)(text)` answers."""

from typing import Any

import torch
from transformers.pipelines import Pipeline


class SysgenPipeline(Pipeline):
    """Texts in, answers out; other arguments are passed to the model."""

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False

    def _sanitize_parameters(self, **kwargs) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        return {}, kwargs, {}

    def preprocess(self, text: str) -> dict[str, Any]:
        inputs = self.tokenizer([text], return_tensors="pt")
        return {**inputs, "words": self.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())}


class SequencePipeline(SysgenPipeline):
    """What an encoder-decoder writes for a source: [{"generated_text": ...}]. Takes the arguments of `generate`."""

    def _forward(self, inputs: dict[str, Any], **options) -> torch.Tensor:
        words = inputs.pop("words")
        written = self.model.generate(**inputs, **options)
        # (B, answers, L), because a batch is taken apart by its first axis; alone, a text has its words, not a list
        batch = len(words) if isinstance(words[0], list) else 1
        return written.view(batch, -1, written.shape[-1])

    def postprocess(self, model_outputs: torch.Tensor) -> list[dict[str, str]]:
        texts = self.tokenizer.batch_decode(model_outputs[0], skip_special_tokens=True)
        return [{"generated_text": text} for text in texts]


class GraphPipeline(SysgenPipeline):
    """
    The semantic graph over a sentence: for each word its place, its label of each kind, and the place of its parent,
    which is its own where it has none.
    """

    def _forward(self, inputs: dict[str, Any], **options) -> dict[str, Any]:
        words = inputs.pop("words")
        outputs = self.model(**inputs, **options)
        # tensors alone, because a batch is taken apart by name
        return {"words": words, **{name: outputs[name] for name in outputs if name.endswith("logits")}}

    def postprocess(self, model_outputs: dict[str, Any]) -> list[dict[str, Any]]:
        names = getattr(self.model.config, "label_names", None) or {}
        # in a batch there may be padding after the words, which is nobody's parent
        count = len(model_outputs["words"])
        logits = {name: tensor[0] for name, tensor in model_outputs.items() if name.endswith("_logits")}
        if "parent_logits" in logits:
            logits["parent_logits"] = logits["parent_logits"][:, :count]
        chosen = {name.removesuffix("_logits"): tensor.argmax(-1).tolist() for name, tensor in logits.items()}
        return [
            {
                "index": index,
                "word": word,
                **{kind: names[kind][ids[index]] if kind in names else ids[index] for kind, ids in chosen.items()},
            }
            for index, word in enumerate(model_outputs["words"])
        ]


class DependencyPipeline(GraphPipeline):
    """
    The head and label with the highest logit for each word after the root; the result need not be a tree. Evaluation
    takes the best tree by log-odds, so single heads may differ from those that a card's scores are of.
    """

    def postprocess(self, model_outputs: dict[str, Any]) -> list[dict[str, Any]]:
        # label 0 is "no arc"
        count = len(model_outputs["words"])
        scores, labels = model_outputs["logits"][0, :count, :count, 1:].max(-1)
        heads: list[int] = scores.argmax(-1).tolist()
        names: Any = self.model.config.id2label
        return [
            {"index": index, "word": word, "head": heads[index], "label": names[int(labels[index, heads[index]]) + 1]}
            for index, word in enumerate(model_outputs["words"])
        ][1:]
