"""Bisections whose answer is known: planted causes, pairs without one, noise, kills, published regressions."""
