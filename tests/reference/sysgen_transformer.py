"""
The models of Csordas et al. 2021, "The Devil is in the Detail", one number after the other.

Slow on purpose: one sample at a time, loops over positions and heads, no mask, no batch, no cache, no fused weight.
A sequence is a list of vectors; weights are plain dictionaries. It imports nothing of the package that it checks.
"""

import math

import torch


def sinusoid(position, width, scale=1):
    """`width` numbers times `scale`: channels 2m and 2m + 1 are sine and cosine of position * 10000^(-2m / width)."""
    vector = torch.empty(width, dtype=torch.float64)
    for channel in range(0, width, 2):
        angle = position * 10000.0 ** (-channel / width)
        vector[channel] = math.sin(angle)
        vector[channel + 1] = math.cos(angle)
    return vector * scale


def weighted_mean(scores, values):
    """Softmax of the scores (a list of numbers), then the mean of the values (a list of vectors) with it."""
    largest = max(score.item() for score in scores)
    exponentials = [torch.exp(score - largest) for score in scores]
    total = sum(exponentials)
    return sum(exponential / total * value for exponential, value in zip(exponentials, values, strict=True))


def rows_of(head, heads, width):
    """Rows of a projection that belong to one head: heads are cut out of the width one after the other."""
    size = width // heads
    return slice(head * size, (head + 1) * size)


def absolute_attention(queries, memory, weights, heads, causal=False, score_width=None):
    """
    Multi-head attention without positions: from every vector of `queries` to every vector of `memory`.

    weights: "query", "key", "value", "merge", each a (width, width) matrix without bias.
    causal: query i sees memory 0 ... i.
    score_width: scores are divided by its square root; by default the width of a head.
    """
    width = queries[0].shape[0]
    score_width = score_width or width // heads
    outputs = []
    for i in range(len(queries)):
        joined = []
        for head in range(heads):
            rows = rows_of(head, heads, width)
            query = weights["query"][rows] @ queries[i]
            scores, values = [], []
            for j in range(i + 1 if causal else len(memory)):
                key = weights["key"][rows] @ memory[j]
                scores.append(query @ key / math.sqrt(score_width))
                values.append(weights["value"][rows] @ memory[j])
            joined.append(weighted_mean(scores, values))
        outputs.append(weights["merge"] @ torch.cat(joined))
    return outputs


def relative_attention(states, weights, heads, causal, score_width=None, table=sinusoid):
    """
    Self-attention with ((q_i + u) . k_j + (q_i + v) . r_{j - i}) / sqrt(width of a head), r_d = W S(d).

    weights: as in `absolute_attention`, and "position" (width, width), "u" and "v" (heads, width of a head).
    table: function of (position, width) that gives S.
    """
    width = states[0].shape[0]
    score_width = score_width or width // heads
    outputs = []
    for i in range(len(states)):
        joined = []
        for head in range(heads):
            rows = rows_of(head, heads, width)
            query = weights["query"][rows] @ states[i]
            scores, values = [], []
            for j in range(i + 1 if causal else len(states)):
                key = weights["key"][rows] @ states[j]
                distance_key = weights["position"][rows] @ table(j - i, width)
                content = (query + weights["u"][head]) @ key
                position = (query + weights["v"][head]) @ distance_key
                scores.append((content + position) / math.sqrt(score_width))
                values.append(weights["value"][rows] @ states[j])
            joined.append(weighted_mean(scores, values))
        outputs.append(weights["merge"] @ torch.cat(joined))
    return outputs


def self_attention(states, weights, options, causal):
    heads, score_width = options["heads"], options["score_width"]
    if options["relative"]:
        return relative_attention(states, weights, heads, causal, score_width, options["table"])
    return absolute_attention(states, states, weights, heads, causal, score_width)


def feed_forward(state, weights):
    """weights: "in" (ff, width), "in_bias", "out" (width, ff), "out_bias"."""
    hidden = weights["in"] @ state + weights["in_bias"]
    return weights["out"] @ torch.stack([unit if unit > 0 else unit * 0 for unit in hidden]) + weights["out_bias"]


def layer_norm(vector, weights, epsilon):
    mean = sum(vector) / len(vector)
    variance = sum((number - mean) ** 2 for number in vector) / len(vector)
    return (vector - mean) / torch.sqrt(variance + epsilon) * weights["weight"] + weights["bias"]


def add_and_norm(states, updates, weights, epsilon):
    return [layer_norm(state + update, weights, epsilon) for state, update in zip(states, updates, strict=True)]


def encoder_layer(states, layer, options):
    """layer: weights of "self_attention", "self_norm", "feed_forward", "feed_forward_norm"."""
    updates = self_attention(states, layer["self_attention"], options, causal=False)
    states = add_and_norm(states, updates, layer["self_norm"], options["epsilon"])
    updates = [feed_forward(state, layer["feed_forward"]) for state in states]
    return add_and_norm(states, updates, layer["feed_forward_norm"], options["epsilon"])


def decoder_layer(states, memory, layer, options):
    """layer: as in `encoder_layer`, and "cross_attention", "cross_norm"."""
    updates = self_attention(states, layer["self_attention"], options, causal=True)
    states = add_and_norm(states, updates, layer["self_norm"], options["epsilon"])
    weights = layer["cross_attention"]
    updates = absolute_attention(states, memory, weights, options["heads"], score_width=options["score_width"])
    states = add_and_norm(states, updates, layer["cross_norm"], options["epsilon"])
    updates = [feed_forward(state, layer["feed_forward"]) for state in states]
    return add_and_norm(states, updates, layer["feed_forward_norm"], options["epsilon"])


def embed(ids, rows, options):
    """
    The vectors that enter a stack.

    options: "scaling" is "none" (E + P), "teu" (sqrt(width) E + P) or "ped" (E + P / sqrt(width)); with "relative"
    positions P is not added.
    """
    width = rows.shape[1]
    states = []
    for position, token in enumerate(ids):
        state = rows[token] * (math.sqrt(width) if options["scaling"] == "teu" else 1)
        if not options["relative"]:
            state = state + options["table"](
                position, width, 1 / math.sqrt(width) if options["scaling"] == "ped" else 1
            )
        states.append(state)
    return states


def transformer(source, target, model, options):
    """
    Logits (len(target), words) of one sample.

    source, target: lists of ids, target starting with the decoder's start symbol.
    model: "source_rows" and "target_rows" (embedding tables), "output" (words, width), "output_bias", "encoder" and
    "decoder": the layers in the order in which they are applied.
    """
    memory = embed(source, model["source_rows"], options)
    for layer in model["encoder"]:
        memory = encoder_layer(memory, layer, options)
    states = embed(target, model["target_rows"], options)
    for layer in model["decoder"]:
        states = decoder_layer(states, memory, layer, options)
    return torch.stack([model["output"] @ state + model["output_bias"] for state in states])


def loss(samples, model, options):
    """Cross-entropy of every label of every (source, labels) pair, summed and divided by the number of labels."""
    total, count = 0, 0
    for source, labels, start in samples:
        logits = transformer(source, [start, *labels[:-1]], model, options)
        for row, label in zip(logits, labels, strict=True):
            total = total + torch.log(sum(torch.exp(number - row.max()) for number in row)) + row.max() - row[label]
            count += 1
    return total / count
