"""
The LSTM encoder-decoder with additive attention, one number after the other.

Slow on purpose: one sample at a time without its padding, loops over positions and units, no mask, no batch, no cache,
no projection ahead of time. It imports nothing of the package that it checks.
"""

import torch


def sigmoid(number):
    return 1 / (1 + torch.exp(-number))


def tanh(number):
    return (torch.exp(number) - torch.exp(-number)) / (torch.exp(number) + torch.exp(-number))


def lstm_step(read, hidden, cell, weights):
    """weights: "input" (4E, I), "hidden" (4E, E) and a bias of each, gates in the order input, forget, cell, output."""
    units = len(hidden)
    new_hidden, new_cell = [], []
    for unit in range(units):
        gates = []
        for gate in range(4):
            row = gate * units + unit
            number = weights["input_bias"][row] + weights["hidden_bias"][row]
            gates.append(number + weights["input"][row] @ read + weights["hidden"][row] @ hidden)
        kept = sigmoid(gates[1]) * cell[unit] + sigmoid(gates[0]) * tanh(gates[2])
        new_cell.append(kept)
        new_hidden.append(sigmoid(gates[3]) * tanh(kept))
    return torch.stack(new_hidden), torch.stack(new_cell)


def lookup(memory, state, weights):
    """Mean of the vectors of `memory` by exp(v tanh(W state + U vector + b))."""
    parts = []
    for vector in memory:
        energy = torch.stack(
            [tanh(n) for n in weights["query"] @ state + weights["key"] @ vector + weights["key_bias"]]
        )
        parts.append(torch.exp(weights["score"][0] @ energy))
    return sum(part * vector for part, vector in zip(parts, memory, strict=True)) / sum(parts)


def encode(source, model):
    """Hidden states of the last layer, and the last (hidden, cell) of every layer."""
    vectors = [model["source_rows"][word] for word in source]
    ends = []
    for weights in model["encoder"]:
        zeros = torch.zeros(weights["hidden"].shape[1], dtype=torch.float64)
        hidden, cell, outputs = zeros, zeros, []
        for vector in vectors:
            hidden, cell = lstm_step(vector, hidden, cell, weights)
            outputs.append(hidden)
        vectors = outputs
        ends.append((hidden, cell))
    return vectors, ends


def logits(source, target, model):
    """Logits (len(target), words) of one sample, from rows of the two tables."""
    memory, states = encode(source, model)
    rows = []
    for word in target:
        read = model["target_rows"][word]
        found = None
        if "attention" in model:
            found = lookup(memory, states[-1][0], model["attention"])
            read = torch.cat((read, found))
        after = []
        for weights, (hidden, cell) in zip(model["decoder"], states, strict=True):
            hidden, cell = lstm_step(read, hidden, cell, weights)
            after.append((hidden, cell))
            read = hidden
        states = after
        top = states[-1][0] if found is None else torch.cat((states[-1][0], found))
        rows.append(model["output"] @ top + model["output_bias"])
    return torch.stack(rows)
