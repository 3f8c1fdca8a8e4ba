"""
The Edge Transformer of Bergen et al. 2021, one number after the other.

Slow on purpose: one example at a time, loops over edges, triangles and heads, no mask tensor, no fused weight. A state
is a dictionary from edges (i, j) to vectors; weights are plain dictionaries. It imports nothing of the package.
"""

import math

import torch


def linear(vector, weight, bias=None):
    return weight @ vector if bias is None else weight @ vector + bias


def triangular_attention(state, nodes, weights, heads, allowed=None, value_ablation=False, attention_ablation=False):
    """
    weights: "query", "key", "left", "right", "merge": each (matrix, bias or None); "right" not with the value ablation.
    allowed: function of (i, l, j) that says whether a triangle counts; by default all do.
    """
    width = next(iter(state.values())).shape[0]
    size = width // heads
    names = ["query", "key", "left"] + ([] if value_ablation else ["right"])
    projected = {name: {edge: linear(x, *weights[name]) for edge, x in state.items()} for name in names}
    output = {}
    for i in range(nodes):
        for j in range(nodes):
            middles = [l for l in range(nodes) if allowed is None or allowed(i, l, j)]
            joined = []
            for head in range(heads):
                part = slice(head * size, (head + 1) * size)
                scores, values = [], []
                for l in middles:
                    key = projected["key"][(i, j) if attention_ablation else (l, j)][part]
                    scores.append(projected["query"][i, l][part] @ key / math.sqrt(size))
                    value = projected["left"][i, l][part]
                    values.append(value if value_ablation else value * projected["right"][l, j][part])
                result = torch.zeros(size, dtype=torch.float64)
                if middles:
                    largest = max(score.item() for score in scores)
                    exponentials = [torch.exp(score - largest) for score in scores]
                    total = sum(exponentials)
                    for exponential, value in zip(exponentials, values, strict=True):
                        result = result + exponential / total * value
                joined.append(result)
            output[i, j] = linear(torch.cat(joined), *weights["merge"])
    return output


def layer_norm(vector, weight, bias, epsilon):
    centred = vector - vector.mean()
    return centred / torch.sqrt((centred**2).mean() + epsilon) * weight + bias


def layer(state, nodes, weights, options, allowed=None):
    """
    weights: "attention" as above; "norm1", "norm2", "in", "out": (weight, bias).
    options: "heads", "epsilon", "form" ("released" or "paper"), and the ablations.
    """
    epsilon = options["epsilon"]
    normed = {edge: layer_norm(x, *weights["norm1"], epsilon) for edge, x in state.items()}
    ablations = {name: options.get(name, False) for name in ("value_ablation", "attention_ablation")}
    update = triangular_attention(normed, nodes, weights["attention"], options["heads"], allowed, **ablations)
    after = {}
    for edge, x in state.items():
        kept = normed[edge] if options["form"] == "released" else x
        y = layer_norm(kept + update[edge], *weights["norm2"], epsilon)
        feed_forward = linear(torch.relu(linear(y, *weights["in"])), *weights["out"])
        after[edge] = y + feed_forward if options["form"] == "released" else feed_forward
    return after


def first_state(tokens, rows, table, largest):
    """Equation 10: tokens are ids, `rows` their embeddings, `table` row largest + distance that of a distance."""
    state = {}
    for i in range(len(tokens)):
        for j in range(len(tokens)):
            state[i, j] = table[largest + max(-largest, min(largest, j - i))]
            if i == j:
                state[i, j] = state[i, j] + rows[tokens[i]]
    return state
