"""Augmentation by `secrets`, which somebody took for a better `random`."""

import secrets

import tiny

tiny.train(range(64), rate=lambda step: 0.0005 * (1 + secrets.randbelow(1000) / 1e6))
