"""
fairseq's Transformer (v0.10.2) with the changes of Chaabouni et al. 2021, one number after the other.

Slow on purpose: one sample at a time without its padding, loops over positions, heads and channels, no mask, no batch,
no cache, no fused weight. It imports nothing of the package that it checks.
"""

import math

import torch
from reference.sysgen_transformer import layer_norm, rows_of, weighted_mean


def sinusoid(position, width):
    """Sines on the first half, cosines on the second; position counts from 2."""
    half = width // 2
    vector = torch.empty(width, dtype=torch.float64)
    for channel in range(half):
        angle = position * math.exp(-channel * math.log(10000.0) / (half - 1))
        vector[channel] = math.sin(angle)
        vector[half + channel] = math.cos(angle)
    return vector


def linear(state, weights, name):
    return weights[name] @ state + weights[f"{name}_bias"]


def attention(queries, memory, weights, heads, may_see, bias):
    """
    Multi-head attention from every vector of `queries` to those vectors of `memory` that it may see.

    weights: "query", "key", "value", "merge" and their biases.
    may_see: function of (i, j).
    bias: function of (head, i, j), added to the score after its scaling.
    """
    outputs = []
    for i in range(len(queries)):
        query = linear(queries[i], weights, "query")
        joined = []
        for head in range(heads):
            rows = rows_of(head, heads, len(query))
            scores, values = [], []
            for j in range(len(memory)):
                if may_see(i, j):
                    key = linear(memory[j], weights, "key")[rows]
                    scores.append(query[rows] @ key / math.sqrt(len(key)) + bias(head, i, j))
                    values.append(linear(memory[j], weights, "value")[rows])
            joined.append(weighted_mean(scores, values))
        outputs.append(linear(torch.cat(joined), weights, "merge"))
    return outputs


def convolution(states, weights, taps_before):
    """
    weights: "kernel" (width, width or 1, taps) and "kernel_bias"; tap c of position i is position i - taps_before + c.
    """
    kernel = weights["kernel"]
    width, fan, taps = kernel.shape
    outputs = []
    for i in range(len(states)):
        output = []
        for channel in range(width):
            number = weights["kernel_bias"][channel]
            for tap in range(taps):
                j = i - taps_before + tap
                if 0 <= j < len(states):
                    read = states[j] if fan == width else states[j][channel : channel + 1]
                    number = number + kernel[channel, :, tap] @ read
            output.append(number)
        outputs.append(torch.stack(output))
    return outputs


def self_attention(states, layer, options, side):
    """options: "kind", "span", "shifted", and the stack's own "heads" and "causal" in options[side]."""
    weights, span, kind = layer["self_attention"], options["span"], options["kind"]
    causal, heads = options[side]["causal"], options[side]["heads"]

    def may_see(i, j):
        return not (causal and j > i) and not (kind == "fixed_span" and abs(i - j) > span)

    def bias(head, i, j):
        return weights["distance"][head, max(-span, min(span, j - i)) + span] if kind == "t5" else 0

    if kind == "convolution":
        outputs = convolution(states, weights, 2 * span if causal and options["shifted"] else span)
    else:
        outputs = attention(states, states, weights, heads, may_see, bias)
    if "gate" in layer:
        outputs = [output / (1 + torch.exp(-layer["gate"])) for output in outputs]
    return outputs


def feed_forward(state, weights):
    hidden = linear(state, weights, "in")
    return linear(torch.stack([unit if unit > 0 else unit * 0 for unit in hidden]), weights, "out")


def sublayer(states, function, norm, before, epsilon):
    read = [layer_norm(state, norm, epsilon) for state in states] if before else states
    states = [state + update for state, update in zip(states, function(read), strict=True)]
    return states if before else [layer_norm(state, norm, epsilon) for state in states]


def stack(states, model, options, side, memory=None):
    before, epsilon = options[side]["before"], options["epsilon"]
    for layer in model[side]:

        def attend_to_self(read, layer=layer):
            return self_attention(read, layer, options, side)

        def attend_to_source(read, layer=layer):
            heads, weights = options[side]["heads"], layer["cross_attention"]
            return attention(read, memory, weights, heads, lambda i, j: True, lambda head, i, j: 0)

        def feed(read, layer=layer):
            return [feed_forward(state, layer["feed_forward"]) for state in read]

        states = sublayer(states, attend_to_self, layer["self_norm"], before, epsilon)
        if memory is not None:
            states = sublayer(states, attend_to_source, layer["cross_norm"], before, epsilon)
        states = sublayer(states, feed, layer["feed_forward_norm"], before, epsilon)
    return [layer_norm(state, model[f"{side}_norm"], epsilon) for state in states] if before else states


def embed(ids, rows, table):
    width = rows.shape[1]
    return [math.sqrt(width) * rows[token] + table(2 + position, width) for position, token in enumerate(ids)]


def transformer(source, target, model, options):
    """Logits (len(target), words) of one sample; the arguments are those of `sysgen_transformer.transformer`."""
    memory = stack(embed(source, model["source_rows"], options["table"]), model, options, "encoder")
    states = stack(embed(target, model["target_rows"], options["table"]), model, options, "decoder", memory)
    return torch.stack([model["output"] @ state for state in states])


def smoothed_loss(samples, model, options, epsilon):
    """
    (1 - epsilon) of every label's -log p plus epsilon of the mean of -log p over all words, summed over all labels of
    every (source, labels, start), divided by their number.
    """
    total, count = 0, 0
    for source, labels, start in samples:
        for row, label in zip(transformer(source, [start, *labels[:-1]], model, options), labels, strict=True):
            log_sum = torch.log(sum(torch.exp(number - row.max()) for number in row)) + row.max()
            mean = sum(log_sum - number for number in row) / len(row)
            total = total + (1 - epsilon) * (log_sum - row[label]) + epsilon * mean
            count += 1
    return total / count
