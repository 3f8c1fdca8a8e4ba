"""
The role/filler Transformer of Chakravarthy et al. 2022, one number after the other.

Slow on purpose: one sample at a time without its padding, loops over positions and heads, no mask, no batch, no cache.
A state is a pair (role, filler). It imports nothing of the package that it checks.
"""

import math

import torch
from reference.sysgen_transformer import layer_norm, rows_of, sinusoid


def linear(state, weights):
    return weights["weight"] @ state + weights["bias"]


def attention(queries, memory, layer, heads, causal=False, limit=None, table=sinusoid):
    """
    From roles (a list of vectors) to pairs: the pairs that were read.

    layer: "query", "key", "value", "role_out", "filler_out"; and where distances count "position" (width, width), "u"
        and "v" (heads, width of a head): a score is then ((q_i + u) . k_j + (q_i + v) . r_{j - i}) / sqrt(width of a
        head) with r_d = W S(d).
    limit: weights that are not larger become 0, the others are divided by their sum.
    """
    outputs = []
    for i in range(len(queries)):
        query = linear(queries[i], layer["query"])
        joined = ([], [])
        for head in range(heads):
            rows = rows_of(head, heads, len(query))
            seen = memory[: i + 1] if causal else memory
            keys = [linear(role, layer["key"])[rows] for role, _ in seen]
            values = [linear(filler, layer["value"])[rows] for _, filler in seen]
            scores = [query[rows] @ key for key in keys]
            if "position" in layer:
                distances = [layer["position"][rows] @ table(j - i, len(query)) for j in range(len(keys))]
                scores = [
                    (query[rows] + layer["u"][head]) @ key + (query[rows] + layer["v"][head]) @ distance
                    for key, distance in zip(keys, distances, strict=True)
                ]
            exponentials = [torch.exp(score / math.sqrt(len(keys[0]))) for score in scores]
            weights = [exponential / sum(exponentials) for exponential in exponentials]
            if limit is not None:
                weights = [weight if weight > limit else weight * 0 for weight in weights]
                weights = [weight / sum(weights) for weight in weights]
            joined[0].append(sum(weight * key for weight, key in zip(weights, keys, strict=True)))
            joined[1].append(sum(weight * value for weight, value in zip(weights, values, strict=True)))
        roles, fillers = (torch.cat(parts) for parts in joined)
        outputs.append((linear(roles, layer["role_out"]), linear(fillers, layer["filler_out"])))
    return outputs


def feed_forward(state, layer):
    hidden = linear(state, layer["fc1"])
    return linear(torch.stack([unit if unit > 0 else unit * 0 for unit in hidden]), layer["fc2"])


def of_both(function, states, parts):
    return [(function(role, parts["role"]), function(filler, parts["filler"])) for role, filler in states]


def norm(states, parts, epsilon=1e-5):
    return of_both(lambda state, weights: layer_norm(state, weights, epsilon), states, parts)


def add(states, updates):
    return [(s[0] + u[0], s[1] + u[1]) for s, u in zip(states, updates, strict=True)]


def stack(states, layers, heads, table, memory=None, limit=None):
    for layer in layers:
        read = norm(states, layer["input_norm"])
        roles, causal = [role for role, _ in read], memory is not None
        update = attention(roles, read, layer["self_attn"], heads, causal=causal, table=table)
        states = norm(add(states, update), layer["self_attn_norm"])
        if memory is not None:
            update = attention([role for role, _ in update], memory, layer["cross_attn"], heads, limit=limit)
            states = norm(add(states, update), layer["cross_attn_norm"])
        states = norm(add(states, of_both(feed_forward, update, layer["feed_forward"])), layer["feed_forward_norm"])
    return states


def embed(words, roles, tables, gate, table):
    """table: function of (position, width) that gives what is added to a role; None adds nothing."""
    width = tables["words"].shape[1]
    states = []
    for position, (word, role) in enumerate(zip(words, roles, strict=True)):
        vector = tables["roles"][role] * math.sqrt(width)
        if table is not None:
            vector = vector + table(position, width)
        states.append((vector * (linear(vector, gate) + 1), tables["words"][word] * math.sqrt(width)))
    return states


def losses(
    source,
    source_roles,
    target,
    target_roles,
    labels,
    role_labels,
    model,
    heads,
    limit,
    table,
    relative,
    by_roles=False,
):
    """Sums of -log p of labels and of roles, for one sample. `by_roles`: the role stream says the words too."""
    added = None if relative else table
    memory = stack(embed(source, source_roles, model["source"], model["gate"], added), model["encoder"], heads, table)
    states = embed(target, target_roles, model["target"], model["gate"], added)
    states = stack(states, model["decoder"], heads, table, memory, limit)
    totals = [0, 0]
    for (role, filler), label, role_label in zip(states, labels, role_labels, strict=True):
        for i, (state, rows, right) in enumerate(
            (
                (role if by_roles else filler, model["target"]["words"], label),
                (role, model["target"]["roles"], role_label),
            )
        ):
            numbers = rows @ state
            log_sum = torch.log(sum(torch.exp(number - numbers.max()) for number in numbers)) + numbers.max()
            totals[i] = totals[i] + log_sum - numbers[right]
    return totals
