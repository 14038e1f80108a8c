"""Which process draws: workers, forks and what is below them, subinterpreters; and that drawing never raises."""

from pathlib import Path

import pytest
from conftest import Environment, run

SEVEN = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7"}

WORKERS = """
import json, multiprocessing, random, sys
import numpy as np
%s
def draw(queue):
    queue.put([random.random(), random.Random().random(), float(np.random.random()), np.random.default_rng().random()])
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue, found = context.Queue(), []
    draw(queue); found.append(queue.get())
    for _ in range(2):
        process = context.Process(target=draw, args=(queue,), name="w")
        process.start(); found.append(queue.get()); process.join()
    print(json.dumps(found))
"""


def workers(python: Path, folder: Path, seeded: str = "", **env: str) -> list[list[float]]:
    """Return what a program and two spawned workers of one name draw, which is the same each time."""
    program = folder / "program.py"
    program.write_text(WORKERS % seeded)
    rans = [run(str(python), str(program), "spawn", env={**SEVEN, **env}) for _ in range(2)]
    assert rans[0].code == 0, rans[0].err
    assert rans[0].out == rans[1].out
    found: list[list[float]] = rans[0].json
    return found


@pytest.mark.parametrize("early", ["", "import numpy.random"])
def test_spawned_workers_of_one_name_differ_in_everything(
    torch_python: Path, tmp_path: Path, early: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(early)  # seeded before multiprocessing is loaded
    found = workers(torch_python, tmp_path, PYTHONPATH=str(tmp_path))
    assert len({number for one in found for number in one}) == 12


@pytest.mark.parametrize(
    "seeded",
    [
        "random.seed(3); np.random.seed(3)",
        pytest.param("import reprobuild_runtime as r; r.enforce_reproducibility(3)", marks=pytest.mark.long),
    ],
)
def test_what_the_program_seeded_in_a_spawned_worker_stays(
    torch_python: Path, tmp_path: Path, seeded: str
) -> None:
    found = workers(torch_python, tmp_path, seeded)
    assert len({(one[0], one[2]) for one in found}) == 1
    assert len({one[1] for one in found}) == 3


BELOW = """
import multiprocessing, os, random, subprocess, sys
def draw():
    print(sys.argv[1:], random.random(), random.Random().random(), flush=True)
def start(way):
    subprocess.run([sys.executable, __file__, *way])
if __name__ == "__main__":
    if len(sys.argv) > 1:
        draw(); sys.exit()
    start("a")
    subprocess.run([sys.executable, __file__, "b"], preexec_fn=lambda: None)
    for turn in "12":
        if os.fork() == 0:
            start([turn])
            for method in ("spawn", "fork", "forkserver"):
                process = multiprocessing.get_context(method).Process(target=draw)
                process.start(); process.join()
            if os.fork() == 0:
                start([turn, "below"]); os._exit(0)
            os.wait(); os._exit(0)
        os.wait()
    process = multiprocessing.get_context("fork").Process(target=start, args=("c",))
    process.start(); process.join()
"""


def test_what_is_started_below_a_fork_is_another(hooked: Environment, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(BELOW)
    one, two = (run(str(hooked.python), "-W", "ignore", str(program), env=SEVEN) for _ in range(2))
    assert (one.code, one.err, one.out) == (0, "", two.out)
    lines = [line.rpartition("] ")[::2] for line in one.out.splitlines()]
    by_way = {way: numbers for way, numbers in lines if "a" in way or "b'" in way or "c" in way}
    assert len(by_way) == 3
    assert len(set(by_way.values())) == 1  # a first process, and what is not below an os.fork()
    assert len(lines) == 13
    assert len({number for _, numbers in lines for number in numbers.split()}) == 22


def test_children_forked_before_anything_is_seeded_differ(hooked: Environment) -> None:
    code = (
        "import os, subprocess, sys\n"
        "draw = 'import random; print(random.random(), random.Random().random(), flush=True)'\n"
        "for turn in range(4):\n"
        "    if turn == 2: import random\n"
        "    if os.fork() == 0:\n"
        "        subprocess.run([sys.executable, '-c', draw]); exec(draw)\n"
        "        if os.fork() == 0: exec(draw); os._exit(0)\n"
        "        os.wait(); os._exit(0)\n"
        "    os.wait()"
    )
    one, two = (hooked.run(code, env=SEVEN) for _ in range(2))
    assert (one.out, one.err) == (two.out, "")
    assert len(one.out.split()) == 24
    # what a fork starts has the fork's own generators, and its global one, too, where nothing was seeded before
    assert len(set(one.out.split())) == 18


@pytest.mark.parametrize("early", [pytest.param("", marks=pytest.mark.long), ", random"])
def test_the_name_of_a_place_does_not_grow_without_end(hooked: Environment, early: str) -> None:
    code = (
        "import os%s\nfor _ in range(400):\n"
        "    if os.fork(): os._exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "print(len(os.environ['REPROBUILD_PLACE']), len(set(os.environ['REPROBUILD_PLACE'])) > 9)"
    )
    length, is_hash = hooked.run(code.replace("%s", early), env=SEVEN).out.split()
    assert (int(length) <= 1100, is_hash) == (True, "True")


def test_a_rank_that_the_program_sets_counts_at_once(hooked: Environment) -> None:
    code = (
        "import os, json, random\nfound = []\n"
        "for rank in ('', '1', '2', '1'):\n"
        "    os.environ['RANK'] = rank\n"
        "    from reprobuild_runtime.seeding import process_id; found.append(process_id.name_process())\n"
        "os.environ = {'RANK': '4'}; found.append(process_id.name_process()); print(json.dumps(found))"
    )
    assert hooked.run(code, env=SEVEN).json == ["", "rank 1", "rank 2", "rank 1", "rank 4"]


def test_a_draw_looks_nothing_up_that_it_knows(hooked: Environment) -> None:
    """Asking for ten variables of ranks took four times as long as all else."""
    code = (
        "import random, sys\nrandom.Random(); calls = []\n"
        "sys.setprofile(lambda frame, event, arg: calls.append(event) if event == 'call' else None)\n"
        "random.Random(); sys.setprofile(None); print(len(calls))"
    )
    assert 5 < int(hooked.run(code, env=SEVEN).out) < 20


@pytest.mark.parametrize(
    "shut",
    ["import tempfile; os.chroot(tempfile.mkdtemp())", "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (3, 3))"],
)  # fmt: skip
def test_a_program_without_files_draws_as_any_other(hooked: Environment, shut: str) -> None:
    code = "import os, random, sys\n%s\nprint(random.Random().random(), 'hashlib' in sys.modules)"
    plain = "import tempfile"
    drawn = [hooked.run(code % one, env=SEVEN) for one in (plain, shut)]
    assert drawn[1].err == ""
    assert drawn[0].out.split()[0] == drawn[1].out.split()[0]


@pytest.mark.parametrize("name", ["RANK", "PMI_RANK", "WORLD_SIZE", "JOB_COMPLETION_INDEX"])
def test_digits_that_are_none_are_no_rank(hooked: Environment, name: str) -> None:
    code = "import random; print(random.Random().random(), random.random())"
    drawn = {**SEVEN, "REPROBUILD_SEED_EXPLICIT": "0"}  # the number of ranks counts only for a drawn seed
    ran = hooked.run(code, env={**drawn, name: "\N{SUPERSCRIPT TWO}"})
    assert (ran.out, ran.err) == (hooked.run(code, env=drawn).out, "")


def test_what_cannot_be_drawn_comes_from_the_system_and_is_said_once(torch_python: Path) -> None:
    code = (
        "import json, random, numpy as np; from reprobuild_runtime.seeding import seed_streams\n"
        "def broken(data): raise OSError('no hash')\n"
        "seed_streams.sha512 = broken\n"
        "print(json.dumps([random.Random().random(), random.Random().random(), np.random.default_rng().random()]))"
    )
    rans = [run(str(torch_python), "-c", code, env=SEVEN) for _ in range(2)]
    assert [ran.err for ran in rans] == ["reprobuild: a generator is not seeded: OSError: no hash\n"] * 2
    assert len({number for ran in rans for number in ran.json}) == 6


INTERPRETERS = """
import json, os, random
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
print(random.random(), random.Random().random(), flush=True)
for _ in range(2):
    made = interpreters.create()
    run = getattr(interpreters, "exec", None) or interpreters.run_string
    run(made, "import random; print(random.random(), random.Random().random(), flush=True)")
"""


def test_subinterpreters_have_streams_of_their_own(hooked: Environment) -> None:
    one, two = (hooked.run(INTERPRETERS, env=SEVEN) for _ in range(2))
    assert (one.out, one.err) == (two.out, "")
    assert len(set(one.out.split())) == 6


def test_the_main_thread_is_itself_before_threading_is_loaded(hooked: Environment) -> None:
    code = "import random, sys; print(json.dumps([random.Random().random(), random.random()]))"
    assert "threading" not in hooked.run("import random, sys; print(*sys.modules)", env=SEVEN).out.split()
    drawn = [
        hooked.run(first + code, env=SEVEN).out for first in ("import json; ", "import json, threading; ")
    ]
    assert drawn[0] == drawn[1]


def test_a_thread_that_forks_is_the_main_one_of_the_child(hooked: Environment) -> None:
    code = (
        "import os, random, _thread, time\n%s\ndone = []\n"
        "def go():\n"
        "    if os.fork() == 0: print(random.Random().random(), flush=True); os._exit(0)\n"
        "    os.wait(); done.append(1)\n"
        "_thread.start_new_thread(go, ())\n"
        "while not done: time.sleep(0.01)"
    )
    drawn = [hooked.run(code % first, "-W", "ignore", env=SEVEN).out for first in ("", "import threading")]
    assert drawn[0] == drawn[1] != ""
