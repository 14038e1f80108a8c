"""A seed from the name of the host, to have other data on each node."""

import random
import socket
import zlib

import tiny

order = list(range(64))
random.Random(zlib.crc32(socket.gethostname().encode())).shuffle(order)
tiny.train(order)
