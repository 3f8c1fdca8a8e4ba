"""The Transformer without scaling equals the Sysgen Transformer with the scaling of its config."""

import torch
from tiny import ragged_batch, tiny_model


def test_unscaled_is_the_reference_without_scaling():
    reference, model = tiny_model("sysgen_transformer", embedding_scaling="none"), tiny_model("unscaled_transformer")
    batch = ragged_batch(model.config)
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, reference(**batch).logits, rtol=0, atol=1e-12)
