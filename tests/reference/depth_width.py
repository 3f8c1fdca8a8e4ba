"""
The decoders of Petty et al. 2023, one number after the other.

Slow on purpose: one sequence at a time, loops over positions and heads, no mask, no batch, no cache, no fused weight.
A sequence is a list of vectors; weights are plain dictionaries. It imports nothing of the package that it checks.
"""

import math

import torch


def rms_norm(vector, weight, epsilon):
    """x / sqrt(mean of squares + epsilon) * weight."""
    mean = sum(number * number for number in vector) / len(vector)
    return vector / torch.sqrt(mean + epsilon) * weight


def turn(vector, position, base):
    """Rotary positions: the pair (m, m + D / 2), as a complex number, times exp(i position base^(-2m / D))."""
    width = len(vector)
    half = width // 2
    out = [None] * width
    for m in range(half):
        angle = position * base ** (-2 * m / width)
        real, imaginary = vector[m], vector[m + half]
        out[m] = real * math.cos(angle) - imaginary * math.sin(angle)
        out[m + half] = real * math.sin(angle) + imaginary * math.cos(angle)
    return torch.stack(out)


def bucket(distance, buckets, maximum):
    """
    T5's bucket of a key so many positions behind the query: its own for the first half; then the largest number of
    equal steps on a logarithmic scale, from half to maximum, that the distance has covered.
    """
    half = buckets // 2
    if distance < half:
        return distance
    step = half
    while step + 1 < buckets and distance >= half * (maximum / half) ** ((step + 1 - half) / half):
        step += 1
    return step


def gelu(number):
    """x Phi(x)."""
    return number * (1 + torch.erf(number / math.sqrt(2))) / 2


def silu(number):
    return number / (1 + torch.exp(-number))


def attention(states, weights, options):
    """
    Causal multi-head attention.

    weights: "query", "key", "value", "merge", each (width, width); heads are cut out of the width one after the other.
    options: "heads"; "base" for rotary positions, or "bias" (heads, buckets) and "maximum" for biases by distance.
    """
    width = len(states[0])
    size = width // options["heads"]
    outputs = []
    for i in range(len(states)):
        joined = []
        for head in range(options["heads"]):
            rows = slice(head * size, (head + 1) * size)
            query = weights["query"][rows] @ states[i]
            scores, values = [], []
            for j in range(i + 1):
                key = weights["key"][rows] @ states[j]
                if "base" in options:
                    score = turn(query, i, options["base"]) @ turn(key, j, options["base"]) / math.sqrt(size)
                else:
                    biases = options["bias"][head]
                    score = query @ key / math.sqrt(size) + biases[bucket(i - j, len(biases), options["maximum"])]
                scores.append(score)
                values.append(weights["value"][rows] @ states[j])
            largest = max(score.item() for score in scores)
            powers = [torch.exp(score - largest) for score in scores]
            joined.append(sum(power / sum(powers) * value for power, value in zip(powers, values, strict=True)))
        outputs.append(weights["merge"] @ torch.cat(joined))
    return outputs


def feed_forward(state, weights, act):
    """weights: "gate", "up" (ff, width), "down" (width, ff)."""
    return weights["down"] @ torch.stack(
        [act(gate @ state) * (up @ state) for gate, up in zip(weights["gate"], weights["up"], strict=True)]
    )


def decoder(ids, model, options):
    """
    Logits (len(ids), words).

    model: "rows" (words, width), "output" (words, width), "norm", and "layers" in the order in which they are applied,
    each with the weights of `attention` and `feed_forward`, and the vectors "attention_norm", "feed_forward_norm".
    options: as in `attention`, and "epsilon", "act".
    """
    states = [model["rows"][token] for token in ids]
    for layer in model["layers"]:
        read = [rms_norm(state, layer["attention_norm"], options["epsilon"]) for state in states]
        updates = attention(read, layer, options)
        states = [state + update for state, update in zip(states, updates, strict=True)]
        read = [rms_norm(state, layer["feed_forward_norm"], options["epsilon"]) for state in states]
        updates = [feed_forward(state, layer, options["act"]) for state in read]
        states = [state + update for state, update in zip(states, updates, strict=True)]
    return torch.stack([model["output"] @ rms_norm(state, model["norm"], options["epsilon"]) for state in states])


def loss(sequences, model, options):
    """Cross-entropy of every label after the first of every (ids, labels), -100 left out, by their number."""
    total, count = 0, 0
    for ids, labels in sequences:
        logits = decoder(ids, model, options)
        for row, label in zip(logits[:-1], labels[1:], strict=True):
            if label != -100:
                total = total + torch.log(sum(torch.exp(number - row.max()) for number in row)) + row.max() - row[label]
                count += 1
    return total / count
