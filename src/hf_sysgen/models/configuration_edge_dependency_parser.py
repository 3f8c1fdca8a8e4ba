"""Configuration of the Edge Transformer of Bergen et al. 2021 as a dependency parser."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_edge_transformer import EdgeTransformerConfig


@strict
class EdgeDependencyParserConfig(EdgeTransformerConfig):
    r"""
    Identical to [`EdgeTransformerConfig`] except:
    - nodes are the words of a sentence, and edges are labelled as dependencies.
    - without arguments: the paper's model on CFQ (Table 1). Dropout and biases are ours, those of the released code for
      CFQ's queries: there is no code for this task.
    """

    model_type = "edge_dependency_parser"

    hidden_size: int = 360
    num_hidden_layers: int = 7
    attention_bias: bool = True
    dropout: float | int = 0.1
    input_form: Literal["graph", "sequence"] = "sequence"

    def validate_architecture(self):
        super().validate_architecture()
        if self.input_form != "sequence":
            raise ValueError(f"input_form={self.input_form!r}, but sentences need input_form='sequence'")


__all__ = ["EdgeDependencyParserConfig"]
