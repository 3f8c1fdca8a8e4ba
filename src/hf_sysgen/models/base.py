"""What all models share: how their weights start, and that their checkpoints answer `AutoModel`."""

from torch import nn
from transformers import PreTrainedConfig
from transformers import initialization as init
from transformers.modeling_utils import PreTrainedModel


def answer_auto_model(config: PreTrainedConfig, headless: type[PreTrainedModel]):
    """Has remote code of a checkpoint with a head answer `AutoModel` too, with the class of the model without one."""
    config.auto_map = (getattr(config, "auto_map", None) or {}) | {
        "AutoModel": f"{headless.__module__.rpartition('.')[2]}.{headless.__name__}"
    }


class SysgenPreTrainedModel(PreTrainedModel):
    """Initialisation and capabilities. Every part with weights of its own says how they start in `reset_weights`."""

    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _can_compile_fullgraph = True
    # a Trainer that accumulates gradients divides a loss by their number, unless the model divides by that of all items
    # in the batch: language models do, and say so
    accepts_loss_kwargs = False

    def _init_weights(self, module: nn.Module):
        if hasattr(module, "reset_weights"):
            module.reset_weights()
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)

    def resize_token_embeddings(self, *args, **kwargs) -> nn.Module:
        """As in transformers; of a model that reads graphs the table of edge labels."""
        resized = super().resize_token_embeddings(*args, **kwargs)
        if self.main_input_name == "edge_ids":
            self.config.edge_vocab_size = resized.weight.shape[0]
        return resized

    def save_pretrained(self, *args, **kwargs):
        """As in transformers; remote code of the checkpoint also answers `AutoModel`, not only this head's class."""
        if self.base_model is not self:
            answer_auto_model(self.config, type(self.base_model))
        super().save_pretrained(*args, **kwargs)
