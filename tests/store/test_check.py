"""`store check` finds every damage, and takes nothing that may be whole."""

from __future__ import annotations

import json
from pathlib import Path

from reprobuild.collect import check
from reprobuild.errors import FetchError
from reprobuild.keep import keep
from reprobuild.lock import Artefact, write_lock
from reprobuild.store import Store, hash_file
from tests.conftest import reprobuild
from tests.image.made import Made
from tests.store.sealing import contents, sealed


def test_check_names_what_is_damaged_and_the_next_fetch_brings_it(made: Made, tmp_path: Path) -> None:
    store = made.store
    served = tmp_path / "served.whl"
    served.write_bytes(b"a wheel" * 1000)
    lock = sealed(made, "one")
    wheel = type(lock.wheels[0])(
        name="two", version="1", role="environment",
        file=Artefact(
            filename="two.whl", sha256=store.add(served.read_bytes()), size=7000, url=served.as_uri()
        ),
    )  # fmt: skip
    lock = made.lock(wheels=(*lock.wheels, wheel), realised=lock.realised)
    path = tmp_path / "x.lock"
    write_lock(lock, path)
    keep(lock, path, store)
    here, there, nobody = lock.wheels[0].file.sha256, wheel.file.sha256, store.add(b"nobody's")
    assert check(store).damaged == ()
    for sha256 in (here, there, nobody):
        blob = store.blob(sha256)
        content = bytearray(blob.read_bytes())
        content[len(content) // 2] ^= 1
        blob.chmod(0o644)
        blob.write_bytes(content)
    damaged_size = store.blob(here).stat().st_size
    (store.root / "blobs" / "zz").mkdir()
    (store.root / "blobs" / "zz" / "link").symlink_to("/etc/passwd")
    done = reprobuild("store", "check", "--store", store.root, "--json")
    assert done.returncode == FetchError.exit_code == 5
    found = {item["sha256"]: item for item in json.loads(done.stdout)["damaged"]}
    assert found.keys() == {here, there, nobody, "link"}
    assert found[here]["names"] == [f"one-1.0-py3-none-any.whl of {path}"]
    assert found[here]["aside"] == str(store.root / "damaged" / here)
    assert Path(found[here]["aside"]).stat().st_size == damaged_size
    assert (found[there]["names"], found[there]["aside"]) == ([f"two.whl of {path}"], "")
    assert found[nobody]["names"] == []
    assert not any(Store(store.root).has(sha256) for sha256 in (here, there, nobody))
    store.add((made.root / "one-1.0-py3-none-any.whl").read_bytes())
    fetched = reprobuild("fetch", path, "--store", store.root)
    assert fetched.returncode == 0, fetched.stderr
    assert hash_file(store.blob(there)) == there
    whole = reprobuild("store", "check", "--store", store.root)
    assert whole.returncode == 0, whole.stderr
    files = len(contents(store, "blobs"))
    assert whole.stdout.startswith(f"{files} of {files} files (")
