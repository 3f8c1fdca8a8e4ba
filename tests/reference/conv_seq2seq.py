"""
The convolutional encoder-decoder (Gehring et al. 2017), one number after the other.

Slow on purpose: one sample at a time without its padding, loops over positions and channels, no mask, no batch, no
cache. It imports nothing of the package that it checks.
"""

import math

import torch


def normalised(direction, length):
    """Every output's weights: its direction, of the length that belongs to it."""
    rows = []
    for row, size in zip(direction, length, strict=True):
        norm = torch.sqrt(sum(number * number for number in row.flatten()))
        rows.append(row * size.flatten()[0] / norm)
    return torch.stack(rows)


def linear(vector, weights):
    return normalised(weights["direction"], weights["length"]) @ vector + weights["bias"]


def halved(first, second):
    return (first + second) * math.sqrt(0.5)


def gated_convolution(vectors, weights, before):
    """Tap c of position i reads position i - before + c; the first half of the channels, gated by the second."""
    kernel = normalised(weights["direction"], weights["length"])
    outputs = []
    for i in range(len(vectors)):
        channels = []
        for channel in range(len(kernel)):
            number = weights["bias"][channel]
            for tap in range(kernel.shape[1]):
                j = i - before + tap
                if 0 <= j < len(vectors):
                    number = number + kernel[channel, tap] @ vectors[j]
            channels.append(number)
        width = len(channels) // 2
        gated = [channels[unit] / (1 + torch.exp(-channels[width + unit])) for unit in range(width)]
        outputs.append(torch.stack(gated))
    return outputs


def attend(vectors, embedded, keys, values, weights):
    outputs = []
    for vector, word in zip(vectors, embedded, strict=True):
        query = halved(linear(vector, weights["in"]), word)
        parts = [torch.exp(query @ key) for key in keys]
        mean = sum(part * value for part, value in zip(parts, values, strict=True)) / sum(parts)
        outputs.append(halved(linear(mean * math.sqrt(len(keys)), weights["out"]), vector))
    return outputs


def embed(words, rows, positions):
    return [rows[word] + positions[place] for place, word in enumerate(words)]


def shrunk(vector, share):
    """The same numbers; of their gradient a share."""
    return share * vector + ((1 - share) * vector).detach()


def encode(source, model):
    """What attention compares with, and what it reads."""
    side = model["encoder"]
    embedded = embed(source, side["rows"], side["positions"])
    vectors = [linear(word, side["first"]) for word in embedded]
    for layer in side["layers"]:
        taps = layer["convolution"]["direction"].shape[1]
        update = gated_convolution(vectors, layer["convolution"], (taps - 1) // 2)
        vectors = [halved(new, old) for new, old in zip(update, vectors, strict=True)]
    share = 1 / (2 * len(model["decoder"]["layers"]))
    keys = [shrunk(linear(vector, side["last"]), share) for vector in vectors]
    return keys, [halved(key, word) for key, word in zip(keys, embedded, strict=True)]


def logits(source, target, model):
    """Logits (len(target), words) of one sample, from rows of the two tables."""
    keys, values = encode(source, model)
    side = model["decoder"]
    embedded = embed(target, side["rows"], side["positions"])
    vectors = [linear(word, side["first"]) for word in embedded]
    for layer in side["layers"]:
        taps = layer["convolution"]["direction"].shape[1]
        update = gated_convolution(vectors, layer["convolution"], taps - 1)
        update = attend(update, embedded, keys, values, layer["attention"])
        vectors = [halved(new, old) for new, old in zip(update, vectors, strict=True)]
    return torch.stack([linear(linear(vector, side["last"]), model["output"]) for vector in vectors])
