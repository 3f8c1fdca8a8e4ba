"""Configuration of the role-filler Transformer of Chakravarthy et al. 2022."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_encoder_decoder import EncoderDecoderConfig


@strict
class RoleFillerTransformerConfig(EncoderDecoderConfig):
    r"""
    Encoder-decoder Transformer with two streams: roles give queries and keys, fillers give values. Without arguments:
    the paper's model (section 3.4) on SCAN add-jump with its role loss and threshold, 4,165,888 parameters.

    Sizes, vocabularies and special ids are those of [`EncoderDecoderConfig`], `hidden_size` being that of one stream.

    Args:
        vocab_size, source_vocab_size: words that fillers may be. The code has one table for both languages, as large
            as the source vocabulary, so that a source and a target word of one id share their vector (train.py:154,
            models/tf_separate.py:108-109); the paper is silent.
        role_vocab_size, source_role_vocab_size: roles of target and source words; `None` means as many as rows of words
            (the code draws roles and words from one vocabulary). In a shared table both are its rows.
        separate_tables: source and target have tables of their own.
        source_row_map: with shared tables, the row of each source word, in the order of ids from `source_id_offset` on.
            A target word's row is its id. Rows beyond these belong only to source words: as in the authors' code, the
            training loss includes them in the softmax as classes that are never correct; `logits` omits them. `None`
            uses the source's ids.
        role_map: role of each target word by its id, used when the decoder input has no roles, e.g. for generated
            tokens. `None`: the tokens are their own roles, in the source too ("fillers - fillers" of Table 2).
        source_role_map: role of each source word by its id, from `source_id_offset` on, for sources that come without
            roles. `None` with a `role_map`: roles of the source must always be given.
        swap_streams: words enter the role stream and roles the filler stream, so that words decide where to look:
            "Roles-Fillers" of Table 2, as the code at b9f9ecc has it. The filler stream's table, which embeds roles
            there, makes the logits: of the filler stream with `role_loss`, else of the role stream. The table of words
            makes the `role_logits`. Both tables have the rows of words and roles, at least `vocab_size`.
        role_loss: adds the mean cross-entropy of the target's roles to the loss (section 3.2).
        attention_threshold: weights of cross-attention that are not larger become 0 (section 3.3: 0.08); `None` keeps
            all.
        renormalization: after the threshold, `"all_or_none"` divides each row by its sum, unless some row of the batch
            has only zeros; then no row is divided. This is what the authors ran (tf_separate.py:560-565; on SCAN it
            cannot happen at 0.08). `"each_row"` divides every row with a nonzero sum, as in equation 3.
        position_scheme: `"absolute"` adds sinusoids to the roles (reported); `"relative"` scores signed distances in
            self-attention as Dai et al. 2019 do. Section 3.4 names them but reports no result; the code has a learned
            embedding of distances instead (utils.py:51-74).
        dropout: on attention weights, sub-layer outputs, inside the feed-forward blocks, and on embedded roles.
    """

    model_type = "role_filler_transformer"
    title = "the role-filler Transformer of Chakravarthy et al. 2022"
    paper = "chakravarthy2022"
    no_effect = {"renormalization": ("attention_threshold", (None,))}  # noqa: RUF012
    from_data = {  # noqa: RUF012
        **EncoderDecoderConfig.from_data,
        "role_map": "data.role_scheme",
        "source_role_map": "data.role_scheme",
        "role_vocab_size": "data.role_scheme",
        "source_role_vocab_size": "data.role_scheme",
        "source_row_map": "the benchmark's words and `separate_tables`",
    }

    vocab_size: int = 17
    source_vocab_size: int = 17
    hidden_size: int = 256
    intermediate_size: int = 512
    encoder_layers: int = 2
    decoder_layers: int = 2
    role_vocab_size: int | None = None
    source_role_vocab_size: int | None = None
    separate_tables: bool = False
    source_row_map: list[int] | None = None
    role_map: list[int] | None = None
    source_role_map: list[int] | None = None
    swap_streams: bool = False
    role_loss: bool = True
    attention_threshold: float | None = 0.08
    renormalization: Literal["all_or_none", "each_row"] = "all_or_none"
    position_scheme: Literal["absolute", "relative"] = "absolute"

    def __post_init__(self, **kwargs):
        if self.role_vocab_size is None:
            self.role_vocab_size = self.decoder_rows
        if self.source_role_vocab_size is None:
            self.source_role_vocab_size = self.source_vocab_size if self.source_row_map is None else self.decoder_rows
        super().__post_init__(**kwargs)

    @property
    def decoder_rows(self) -> int:
        both = self.role_vocab_size if self.swap_streams else None
        return max(self.vocab_size, both or 0, *(row + 1 for row in self.source_row_map or [0]))

    def validate_architecture(self):
        super().validate_architecture()
        if not self.tie_word_embeddings:
            raise ValueError("tie_word_embeddings=False: the logits of both streams are made with their tables")
        if self.swap_streams and self.role_vocab_size < self.decoder_rows:
            raise ValueError(
                f"swap_streams=True makes logits of words with the table of roles: role_vocab_size="
                f"{self.role_vocab_size} has to be at least {self.decoder_rows}, its words"
            )
        if self.attention_threshold is not None:
            self.check_probabilities("attention_threshold")
        if self.source_row_map is not None:
            if self.separate_tables:
                raise ValueError("source_row_map says which rows are shared, and separate_tables=True shares none")
            self.check_map("source_row_map", "rows", "source_vocab_size", "vocab_size", "source_vocab_size")
        if not self.separate_tables:
            equal = [("role_vocab_size", "source_role_vocab_size")]
            if self.source_row_map is None:
                equal.insert(0, ("vocab_size", "source_vocab_size"))
            for ours, theirs in equal:
                if getattr(self, ours) != getattr(self, theirs):
                    raise ValueError(
                        f"{ours}={getattr(self, ours)} and {theirs}={getattr(self, theirs)} need separate_tables=True"
                    )
            if self.source_id_offset and self.source_row_map is None:
                raise ValueError(
                    f"source_id_offset={self.source_id_offset} needs a source_row_map or separate_tables=True"
                )
        for side in ("", "source_"):
            if getattr(self, f"{side}role_map") is not None:
                self.check_map(f"{side}role_map", "roles", f"{side}vocab_size", f"{side}role_vocab_size")
        if self.source_role_map is not None and self.role_map is None:
            raise ValueError("source_role_map is given and role_map is None: give both, or source_role_map=None")

    def check_map(self, name: str, values: str, words: str, *most: str):
        """Raises ValueError unless the field `name` has, for each of so many `words`, one of `most` `values` in all."""
        given, length = getattr(self, name), getattr(self, words)
        if len(given) != length:
            raise ValueError(f"{name} has {len(given)} {values} for {words}={length} words")
        limit = sum(getattr(self, field) for field in most)
        if not all(0 <= value < limit for value in given):
            raise ValueError(f"{name} holds {values} outside {' + '.join(most)}={limit}")


__all__ = ["RoleFillerTransformerConfig"]
