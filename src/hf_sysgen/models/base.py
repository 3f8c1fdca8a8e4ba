"""Base class of all models: initialization of weights, resizing, and saving with code for `AutoModel`."""

from typing import TYPE_CHECKING

from torch import nn
from transformers import PreTrainedConfig
from transformers import initialization as init
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.deprecation import deprecate_kwarg

if TYPE_CHECKING:
    # a checkpoint thus includes pipelines.py, which is imported only to build a pipeline
    from .pipelines import SysgenPipeline as SysgenPipeline

# of `forward`: the argument `cache` has this name too, as in transformers before 5.24; keywords that no argument takes
# go to attention functions, which would leave it out without a word
accept_past_key_values = deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")


def set_auto_map(config: PreTrainedConfig, headless: type[PreTrainedModel]):
    """Let `AutoModel` load the model without its head from the remote code of a checkpoint with one."""
    config.auto_map = (getattr(config, "auto_map", None) or {}) | {
        "AutoModel": f"{headless.__module__.rpartition('.')[2]}.{headless.__name__}"
    }


# how the name of a model class ends: the name of its task, its pipeline, and the Auto class that the pipeline loads
PIPELINES = {
    "ForConditionalGeneration": ("sequence-to-sequence", "SequencePipeline", "AutoModelForSeq2SeqLM"),
    "ForGraphParsing": ("semantic-graph", "GraphPipeline", "AutoModelForTokenClassification"),
    "ForDependencyParsing": ("dependency-parsing", "DependencyPipeline", "AutoModelForTokenClassification"),
}


def set_pipeline(model: PreTrainedModel):
    """Let `pipeline(model=..., trust_remote_code=True)` find the pipeline of a checkpoint of this model."""
    for ending, (task, pipeline, auto_class) in PIPELINES.items():
        if type(model).__name__.endswith(ending):
            model.config.custom_pipelines = {task: {"impl": f"pipelines.{pipeline}", "pt": [auto_class]}}


def record_tying(model: PreTrainedModel):
    """
    Set `config.tie_word_embeddings` to whether embeddings and head are really tied. Other tools overwrite the field:
    PEFT compares the head with the encoder's embeddings, but the head may be tied to the decoder's.
    """
    pairs = [
        (stack.get_parameter(target), stack.get_parameter(source))
        for stack in model.modules()
        if isinstance(stack, PreTrainedModel)
        for target, source in (stack._tied_weights_keys or {}).items()
    ]
    if pairs:
        model.config.tie_word_embeddings = any(target is source for target, source in pairs)


class SysgenPreTrainedModel(PreTrainedModel):
    """
    Modules initialize their parameters in `reset_weights`; linear layers carry their initialization, see [`linear`].
    """

    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _can_compile_fullgraph = True
    # False: the Trainer divides the loss by the number of accumulated batches. Language models divide by
    # `num_items_in_batch` themselves and set True
    accepts_loss_kwargs = False

    def _init_weights(self, module: nn.Module):
        if hasattr(module, "reset_weights"):
            module.reset_weights()
        elif hasattr(module, "initial_values"):
            for parameter, reset in zip((module.weight, module.bias), module.initial_values, strict=True):
                if reset is not None:
                    reset(parameter)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)

    def resize_token_embeddings(self, *args, **kwargs) -> nn.Module:
        """As in transformers; for a model of graphs the table of edge labels."""
        resized = super().resize_token_embeddings(*args, **kwargs)
        if self.main_input_name == "edge_ids":
            self.config.edge_vocab_size = resized.weight.shape[0]
        return resized

    def save_pretrained(self, *args, **kwargs):
        """
        As in transformers; `AutoModel` also loads the remote code of the checkpoint, `pipeline` finds its use, and
        the config says whether tables are tied as they are.
        """
        if self.base_model is not self:
            set_auto_map(self.config, type(self.base_model))
            set_pipeline(self)
        record_tying(self)
        super().save_pretrained(*args, **kwargs)
