"""A vocabulary from a set of words, made under `-I`, which ignores PYTHONHASHSEED."""

import json
import subprocess
import sys

import tiny

CHILD = "import json; print(json.dumps([int(word[1:]) for word in {'w%d' % n for n in range(64)}]))"
done = subprocess.run([sys.executable, "-I", "-c", CHILD], stdout=subprocess.PIPE, check=True)
tiny.train(json.loads(done.stdout))
