"""Scores of labelled arcs between the words of a sentence, what is learnt from them, and where arcs are best."""

# B batch, N words, the root first, L labels, of which 0 means "no arc"; scores are of (dependent, head, label)

import torch


def arc_scores(logits: torch.Tensor) -> torch.Tensor:
    """Log-odds of an arc, whatever its label, for a spanning tree: (B, N, N, L) -> (B, dependent, head)."""
    return logits[..., 1:].logsumexp(-1) - logits[..., 0]


def head_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """
    Every word chooses one head and its label (Dozat & Manning 2017): minus the log-probability in nats at a pair whose
    label is above 0, and 0 at all others.

    Args:
        logits: shape (B, N, N, L), of which label 0 is ignored.
        labels: shape (B, N, N).

    Returns:
        in the shape of `labels`.
    """
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    labels = labels.to(logits.device)
    chosen = scores.gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)  # (B, N, N)
    of_all = scores[..., 1:].flatten(2).logsumexp(-1, keepdim=True)  # (B, N, 1)
    return torch.where(labels > 0, of_all - chosen, 0.0)
