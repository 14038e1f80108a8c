#!/usr/bin/env python3
"""Run the fuzzer of the tests for longer: `python dev/fuzz.py --seconds 600 [--seed N] [--more FOLDER]`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    runpy.run_module("tests.guard.fuzz", run_name="__main__")
