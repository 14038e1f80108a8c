"""Memory of a tensor that is written by its address."""

import ctypes
import time

from small import train


def add(out, step):
    if step == 2:
        ctypes.memset(out.data_ptr(), time.time_ns() // 1000 % 97, 1)
    return out


train(add)
