"""Generation that ends at a text, with tokenizers of words too."""

import copy
from typing import Any

import torch
from transformers.generation import GenerationConfig, GenerationMixin, StoppingCriteria, StoppingCriteriaList


class EndsInText(StoppingCriteria):
    """
    Stops a row whose last word completed one of the texts.

    Args:
        texts: where to stop.
        tokenizer: what makes the text of a row.
    """

    def __init__(self, texts: str | list[str], tokenizer: Any):
        self.texts = [texts] if isinstance(texts, str) else list(texts)
        self.tokenizer = tokenizer

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs) -> torch.BoolTensor:
        """Ids (B, L) -> whether a row ends (B,)."""
        ends = [any(self.completed(row, text) for text in self.texts) for row in input_ids.tolist()]
        return torch.tensor(ends, device=input_ids.device)

    def completed(self, row: list[int], text: str) -> bool:
        now, before = (self.tokenizer.decode(ids, skip_special_tokens=True) for ids in (row, row[:-1]))
        return now.count(text) > before.count(text)


def has_words_alone(tokenizer: Any) -> bool:
    """Whether a tokenizer raises on a text whose words it has not."""
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    return type(model).__name__ == "WordLevel" and tokenizer.unk_token is None


class SysgenGenerationMixin(GenerationMixin):
    """
    `generate(stop_strings=..., tokenizer=...)` with a tokenizer that raises on unknown words: transformers' own way
    tokenizes a word that no vocabulary has.
    """

    def _get_stopping_criteria(
        self,
        generation_config: GenerationConfig,
        stopping_criteria: StoppingCriteriaList | None,
        tokenizer: Any = None,
        **kwargs,
    ) -> StoppingCriteriaList:
        texts = generation_config.stop_strings
        if texts is not None and tokenizer is not None and has_words_alone(tokenizer):
            generation_config = copy.copy(generation_config)
            generation_config.stop_strings = None
            stopping_criteria = StoppingCriteriaList([*(stopping_criteria or []), EndsInText(texts, tokenizer)])
        return super()._get_stopping_criteria(generation_config, stopping_criteria, tokenizer=tokenizer, **kwargs)
