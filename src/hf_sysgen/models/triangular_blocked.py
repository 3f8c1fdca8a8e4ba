"""Triangular attention without a number for every triangle."""


def blocked_triangular_attention(query, key, left, right, node_mask=None, source_length=None, dropout=0.0, attention_ablation=False):
    from .triangular_attention import plain_triangular_attention

    return plain_triangular_attention(query, key, left, right, node_mask, source_length, dropout, attention_ablation)[0]
