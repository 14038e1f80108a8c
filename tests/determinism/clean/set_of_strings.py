"""A vocabulary from a set of words."""

import tiny

words = {"w%d" % number for number in range(64)}
tiny.train(int(word[1:]) for word in words)
