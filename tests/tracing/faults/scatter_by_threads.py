"""An operation of its own adds in the order in which its threads finish."""

import os
import threading

import torch
from small import train


@torch.library.custom_op("planted::scatter_sum", mutates_args=())
def scatter_sum(values: torch.Tensor) -> torch.Tensor:
    total, lock = torch.zeros(8), threading.Lock()

    def add(part):
        threading.Event().wait(os.urandom(1)[0] / 50000)
        with lock:
            total.add_(part)

    threads = [
        threading.Thread(target=add, args=(part * 10.0**number,)) for number, part in enumerate(values)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return total


def add(out, step):
    return out + scatter_sum(out.detach()[:6].clone()) * 1e-3


train(add)
