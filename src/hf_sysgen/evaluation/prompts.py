"""Prompts and answers for models of transformers, as text and as token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# lm-evaluation-harness builds prompts like this: a space before the answer and an empty line after it
PROMPT = "Input: {input}\nOutput:"
BETWEEN_EXAMPLES = "\n\n"
INPUT = "{input}"
# the field of a checkpoint's config that keeps the template it was trained with
TEMPLATE_FIELD = "prompt_template"


def prompt_text(text: str, decoder: bool, template: str | None, shots: Iterable[tuple[str, str]] = ()) -> str:
    """The prompt for an input, after examples of input and target; the arguments are those of [`Prompts`]."""
    template = template or (PROMPT if decoder or shots else INPUT)
    shown = [f"{template.replace(INPUT, source)} {target}{BETWEEN_EXAMPLES}" for source, target in shots]
    return "".join(shown) + template.replace(INPUT, text)


@dataclass(frozen=True)
class Prompts:
    """
    Texts as prompts and answers of one model.

    Args:
        tokenizer: of the model.
        decoder: whether the model continues its prompt; otherwise an encoder reads it.
        template: the prompt, with `{input}` in it; None for [`PROMPT`] of a decoder, the input alone of the others.
    """

    tokenizer: PreTrainedTokenizerFast
    decoder: bool
    template: str | None = None

    def prompt(self, text: str, shots: Iterable[tuple[str, str]] = ()) -> str:
        """The prompt for an input, after examples of input and target."""
        return prompt_text(text, self.decoder, self.template, shots)

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """Ids of prompts: with the symbols that the tokenizer puts around a text, but no EOS that a decoder would
        read."""
        if not prompts:
            return []
        encoded = self.tokenizer(list(prompts))["input_ids"]
        eos = self.tokenizer.eos_token_id
        return [ids[:-1] if self.decoder and ids[-1:] == [eos] else ids for ids in encoded]

    def encode_pairs(self, prompts: Sequence[str], targets: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
        """
        Ids of prompts, and of targets with EOS. For a decoder, a target is tokenized as it continues the prompt and a
        space.
        """
        if not prompts:
            return [], []
        sources, eos = self.encode(prompts), self.tokenizer.eos_token_id
        if not self.decoder:
            written = self.tokenizer(list(targets), add_special_tokens=False)["input_ids"]
            return sources, [[*ids, eos] for ids in written]
        joined = self.encode([f"{prompt} {target}" for prompt, target in zip(prompts, targets, strict=True)])
        answers = []
        for source, whole, target in zip(sources, joined, targets, strict=True):
            answer = whole[len(source) :]
            if whole[: len(source)] != source:
                # before the target, the tokenizer encodes the end of the prompt differently
                answer = self.tokenizer(f" {target}", add_special_tokens=False)["input_ids"]
            answers.append([*answer, eos])
        return sources, answers


def prompts_of(model: Any, tokenizer: PreTrainedTokenizerFast) -> Prompts:
    """The prompts of a loaded model of transformers, with the template in its config."""
    return Prompts(tokenizer, not model.config.is_encoder_decoder, getattr(model.config, TEMPLATE_FIELD, None))


def unencodable_words(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> list[str]:
    """Words of the texts that the tokenizer writes as unknown, sorted."""
    unknown = tokenizer.unk_token_id
    words = sorted({word for text in texts for word in text.split()})
    if unknown is None or not words:
        return []
    encoded = tokenizer(words, add_special_tokens=False)["input_ids"]
    return [word for word, ids in zip(words, encoded, strict=True) if unknown in ids]
