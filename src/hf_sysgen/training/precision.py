"""Find the faster precision on a device, for `training.bf16: auto`."""

from __future__ import annotations

import time

import torch

from hf_sysgen.cpu import fast_products

# tokens and width of the measured layer. It is small, so that other work on the machine does not disturb every round
TOKENS, WIDTH = 512, 256
# timing ends after so many rounds or seconds of CPU time: without instructions for bfloat16, a round is slow
ROUNDS, SECONDS = 20, 0.2
# an update gains less than its matrix products, because it does other work too
LEAST_GAIN = 1.2


def faster_in_bf16(device: torch.device) -> tuple[bool, str]:
    """
    Whether training on a device is faster under autocast to bfloat16 than in float32, and why, in words. Draws no
    random numbers.
    """
    if device.type == "cuda":
        # no timing is needed: tensor cores compute in bfloat16, but in float32 only if TF32 is enabled
        able = torch.cuda.is_bf16_supported(including_emulation=False)
        return able, f"{torch.cuda.get_device_name(device)} has {'' if able else 'no '}instructions for it"
    if device.type != "cpu":
        return False, f"it is not measured on {device.type}"
    full, half = seconds_of_layer()
    return full / half >= LEAST_GAIN, f"a layer is {full / half:.2g} times as fast with it as in float32"


@fast_products()
def seconds_of_layer() -> tuple[float, float]:
    """
    Seconds of a linear layer, forward and backward, on one thread of the CPU: in float32, and under autocast to
    bfloat16. Both take turns, and the shortest times count: beside other work medians say nothing, nor do times of
    several threads, which wait for each other.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        inputs = torch.ones(TOKENS, WIDTH, requires_grad=True)
        weights = torch.ones(WIDTH, WIDTH, requires_grad=True)
        times: dict[bool, list[float]] = {False: [], True: []}
        began = time.process_time()
        # the first round is a warm-up and does not count
        while len(times[True]) < 2 or (len(times[True]) <= ROUNDS and time.process_time() - began < SECONDS):
            for half, seconds in times.items():
                start = time.perf_counter()
                with torch.autocast("cpu", torch.bfloat16, enabled=half):
                    outputs = torch.nn.functional.linear(inputs, weights)
                outputs.sum().backward()
                seconds.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return min(times[False][1:]), min(times[True][1:])
