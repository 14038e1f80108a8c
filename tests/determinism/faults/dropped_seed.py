"""A child without the environment, and without site-packages: nothing seeds it."""

import json
import subprocess
import sys

import tiny

CHILD = "import json, random; print(json.dumps(random.sample(range(64), 64)))"
done = subprocess.run([sys.executable, "-S", "-c", CHILD], env={}, stdout=subprocess.PIPE, check=True)
tiny.train(json.loads(done.stdout))
