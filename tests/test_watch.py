"""What is late is told, once, and what ends in time is not."""

from __future__ import annotations

import threading
import time

from reprobuild.infra.http.deadline import Watchdog


def test_only_what_is_late_is_told() -> None:
    watch, told = Watchdog(), []
    second = threading.Event()

    def late() -> None:
        told.append("second")
        second.set()

    with watch.limit_time(60, lambda: told.append("first")), watch.limit_time(0.05, late):
        assert second.wait(10)  # though a longer one was there before it
    with watch.limit_time(0.1, lambda: told.append("third")):
        pass
    with watch.limit_time(0.2, lambda: told.append("fourth")):
        time.sleep(0.6)
    assert told == ["second", "fourth"]


def test_many_threads_share_one() -> None:
    watch, told = Watchdog(), []
    before = threading.active_count()

    def work(number: int) -> None:
        with watch.limit_time(0.05 if number % 2 else 60, lambda: told.append(number)):
            time.sleep(0.5)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [number for number in range(20) if number % 2]
    assert threading.active_count() == before + 1


def test_what_gets_on_is_not_late() -> None:
    watch, told = Watchdog(), []
    with watch.limit_time(1, lambda: told.append("late")) as due:
        for _ in range(3):
            time.sleep(0.5)
            due.renew(1)
        assert told == []
        time.sleep(1.5)
    assert told == ["late"]
