"""Generators that are made without a seed: the same each time, and another one in each process and thread."""

import json
import sys
from pathlib import Path

import pytest
from conftest import Environment, run

SEVEN = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7"}
START = "import copy, json, os, pickle, random, sys, threading\n"


def same_twice(hooked: Environment, code: str, **env: str) -> list[object]:
    """Run a program that prints a list, twice with a seed and once with another; return the list."""
    one, two, other = (
        hooked.run(START + code, env={**SEVEN, "REPROBUILD_SEED": seed, **env}) for seed in ("7", "7", "8")
    )
    assert (one.code, one.err) == (0, ""), one.err
    assert one.out == two.out != other.out
    found: list[object] = one.json
    return found


def test_each_generator_is_another_and_the_same_each_time(hooked: Environment) -> None:
    found = same_twice(hooked, "print(json.dumps([random.Random().random() for _ in range(5)]))")
    assert len(set(map(str, found))) == 5


def test_a_rank_has_streams_of_its_own(hooked: Environment) -> None:
    code = "print(json.dumps([random.Random().random(), random.random()]))"
    ranks = [same_twice(hooked, code, RANK=str(rank)) for rank in range(3)]
    assert ranks[0] == same_twice(hooked, code)
    assert len({str(number) for rank in ranks for number in rank}) == 6


def test_the_rank_that_torchrun_sets_counts_before_others(hooked: Environment) -> None:
    code = "print(json.dumps([random.Random().random()]))"
    assert same_twice(hooked, code, RANK="1", SLURM_PROCID="0") == same_twice(hooked, code, RANK="1")
    assert same_twice(hooked, code, SLURM_PROCID="1") == same_twice(hooked, code, RANK="1")


FORKS = """
def draw(way):
    print(json.dumps([way, random.Random().random(), random.random()]), file=sys.stderr, flush=True)
def fork(way, depth):
    for turn in range(2):
        if os.fork() == 0:
            draw(way + [turn])
            depth and fork(way + [turn], depth - 1)
            os._exit(0)
        os.wait()
draw([])
fork([], 1)
"""


def test_forks_of_forks(hooked: Environment) -> None:
    runs = [hooked.run(START + FORKS, env=SEVEN).err for _ in range(2)]
    assert runs[0] == runs[1]
    drawn = [json.loads(line) for line in runs[0].splitlines()]
    assert len(drawn) == 7
    assert len({number for _, *numbers in drawn for number in numbers}) == 14


def test_two_threads_that_fork_at_once_have_distinct_children(hooked: Environment) -> None:
    code = (
        "def go():\n"
        "    ways = []\n"
        "    for _ in range(25):\n"
        "        end, start = os.pipe()\n"
        "        if os.fork() == 0: os.write(start, random.Random().random().hex().encode()); os._exit(0)\n"
        "        os.wait(); found.append(os.read(end, 99)); os.close(end); os.close(start)\n"
        "found = []\n"
        "threads = [threading.Thread(target=go) for _ in range(2)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]; print(len(found), len(set(found)))"
    )
    assert hooked.run(START + code, "-W", "ignore", env=SEVEN).out == "50 50\n"


THREADS = """
barrier = threading.Barrier(4)
found = {}
def go(number):
    barrier.wait()
    found[number] = [random.Random().random() for _ in range(200)]
threads = [threading.Thread(target=go, args=(n,), name=%s) for n in range(4)]
[t.start() for t in threads]; mine = [random.Random().random() for _ in range(200)]; [t.join() for t in threads]
print(json.dumps([mine, *(found[n] for n in range(4))]))
"""


def test_threads_that_draw_at_once_each_have_their_own(hooked: Environment) -> None:
    found = same_twice(hooked, THREADS % "None")
    assert len({number for one in found for number in one}) == 1000  # type: ignore[attr-defined]  # lists of numbers


def test_threads_of_one_name_are_told_apart(hooked: Environment) -> None:
    found = hooked.run(START + THREADS % "'x'", env=SEVEN).json
    assert len({number for one in found for number in one}) == 1000


def test_a_thread_that_threading_does_not_know(hooked: Environment) -> None:
    code = (
        "import _thread, time, random, sys\nassert 'threading' not in sys.modules\nfound = []\n"
        "for _ in range(3): _thread.start_new_thread(lambda: found.append(random.Random().random()), ())\n"
        "while len(found) < 3: time.sleep(0.01)\n"
        "found.append(random.Random().random()); import threading; found.append(random.Random().random())\n"
        "_thread.start_new_thread(lambda: found.append(random.Random().random()), ())\n"
        "while len(found) < 6: time.sleep(0.01)\n"
        "print(len(set(found)), threading.active_count(), len(threading.enumerate()))"
    )
    assert hooked.run(code, env=SEVEN).out == "6 1 1\n"


def test_names_of_threads_take_no_memory_without_end(hooked: Environment) -> None:
    code = (
        "from reprobuild_runtime.seeding import seed_streams\nseed_streams.MOST_THREADS = 10\nfound = set()\n"
        "for n in range(200):\n"
        "    t = threading.Thread(target=lambda: found.add(random.Random().random()), name=f'n{n % 40}')\n"
        "    t.start(); t.join()\n"
        "print(len(found), len(seed_streams._in_force[0].names) <= 10)"
    )
    assert hooked.run(START + code, env=SEVEN).out == "200 True\n"


@pytest.mark.parametrize("hook", [True, False])
def test_generators_work_as_without_us(hooked: Environment, hook: bool) -> None:
    """Copies, pickles, subclasses, seeds of every kind; the expected lines are the same with and without the hook."""
    code = """
class Plain(random.Random):
    pass
class Own(random.Random):
    def __init__(self, x=None):
        self.seeds = []
        super().__init__(x)
    def seed(self, a=None, version=2):
        self.seeds.append((a, version))
        super().seed(a, version)
class Other(random.Random):
    def seed(self, a=None):
        super().seed(5)
for seed in (0, -3, 7, 2**70, 1.5, "text", b"bytes", bytearray(b"array")):
    print(random.Random(seed).random(), Plain(seed).random(), Own(seed).random())
one = random.Random(3); one.random()
for two in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
    print(type(two) is random.Random, two.getstate() == one.getstate())
one.setstate(random.Random(4).getstate()); print(one.random(), isinstance(Plain(), random.Random))
print(Own().seeds, Other().random())
random.seed(9); print(random.random()); random.seed(9, 1); print(random.random())
print(one.seed(None), one.seed(), random.seed(), one.seed(version=1), one.gauss_next)
method = random.Random.seed
print(method.__qualname__, method.__module__, pickle.loads(pickle.dumps(method)) is method)
import inspect; print(inspect.signature(random.Random.seed), inspect.signature(random.seed))
print(random.SystemRandom().seed(1), random.SystemRandom(1).getrandbits(0) if sys.version_info > (3, 9) else 0)
try: random.Random(7, 8)
except TypeError: print("TypeError")
"""
    ran = hooked.run(START + code, env=SEVEN) if hook else run(sys.executable, "-c", START + code)
    assert ran.err == ""
    plain = run(sys.executable, "-S", "-c", START + code)
    assert plain.code == 0
    assert ran.out == plain.out


def test_no_seed_for_random_follows_the_seed_in_force(hooked: Environment) -> None:
    code = (
        "one = random.Random(3); one.seed(None); random.seed(); two = random.random()\n"
        "random.seed(); print(json.dumps([one.random(), two, random.random()]))"
    )
    assert len(set(map(str, same_twice(hooked, code)))) == 3


def test_real_entropy_is_left_alone(hooked: Environment) -> None:
    code = (
        "import multiprocessing.synchronize as m, secrets, tempfile, uuid\n"
        "print(json.dumps([os.urandom(8).hex(), secrets.token_hex(8), str(uuid.uuid4()),\n"
        "  random.SystemRandom().random(), next(tempfile._get_candidate_names()), next(m.SemLock._rand),\n"
        "  m.context.process.current_process().authkey.hex()]))"
    )
    one, two = (hooked.run(START + code, env=SEVEN).json for _ in range(2))
    assert [a for a, b in zip(one, two, strict=True) if a == b] == []


def test_enforcing_again_starts_the_streams_anew(hooked: Environment) -> None:
    code = (
        "from reprobuild_runtime import enforce_reproducibility as enforce\n"
        "found = []\nfor seed in (5, 5, 6):\n    enforce(seed); found.append(random.Random().random())\n"
        "print(json.dumps(found))"
    )
    one, two, three = hooked.run(START + code, env=SEVEN).json
    assert one == two != three


def test_what_was_handed_out_before_does_not_come_again(hooked: Environment) -> None:
    code = (
        "from reprobuild_runtime import enforce_reproducibility as enforce\n"
        "found = [random.Random().random()]\n"
        "for seed in (7, None):\n    enforce(seed); found.append(random.Random().random())\n"
        "print(json.dumps(found))"
    )
    launched, enforced, again = hooked.run(START + code, env=SEVEN).json
    assert launched != enforced == again


def test_without_a_chosen_seed_streams_follow_the_drawn_one(hooked: Environment) -> None:
    code = "print(json.dumps([os.environ['REPROBUILD_SEED'], random.Random().random()]))"
    drawn, number = hooked.run(START + code).json
    again = hooked.run(START + code, env={"REPROBUILD_SEED": drawn}).json
    assert again == [drawn, number]
    assert hooked.run(START + code).json[1] != number


def test_real_numpy(torch_python: Path) -> None:
    code = START + (
        "import numpy as np\n"
        "made = lambda: [float(np.random.default_rng().random()), int(np.random.PCG64().random_raw()),\n"
        "  float(np.random.RandomState().random_sample()), str(np.random.SeedSequence(pool_size=32).entropy),\n"
        "  int(np.random.Philox().random_raw()), float(np.random.Generator(np.random.SFC64()).random())]\n"
        "rng = np.random.default_rng(); copies = [copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))]\n"
        "assert len({g.random() for g in (rng, *copies)}) == 1\n"
        "assert float(np.random.default_rng(5).random()) == 0.8050029237453802\n"
        "children = [float(g.random()) for g in rng.spawn(2)]\n"
        "np.random.seed(None); unseeded = float(np.random.random())\n"
        "print(json.dumps(made() + made() + children + [unseeded]))"
    )
    found = [
        run(str(torch_python), "-c", code, env={**SEVEN, "REPROBUILD_SEED": seed}).json
        for seed in ("7", "7", "8")
    ]
    assert found[0] == found[1]
    assert len(set(map(str, found[0] + found[2]))) == 30


def test_a_numpy_without_a_place_for_entropy_is_said(bare: Environment) -> None:
    bare.install(numpy="", numpy__random="def seed(value): pass")
    ran = bare.run("import numpy.random", env=SEVEN)
    assert ran.err == (
        "reprobuild: this NumPy's generators cannot be told a seed: default_rng() is not reproducible\n"
    )
