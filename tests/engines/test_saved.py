"""An image of the engine is an image like others: `diff` takes it by its name."""

from __future__ import annotations

import pytest

from reprobuild.compare.images.explain import compare_images
from reprobuild.engines import docker
from reprobuild.errors import EngineError
from tests.engines.conftest import Running, Tiny


@pytest.mark.usefixtures("sockets_that_the_sdk_forgets")
def test_an_image_is_saved_as_it_was_loaded(engine: Running, tiny: Tiny) -> None:
    """The same tree and configuration, with any image store of Docker."""
    if engine.module is not docker:
        with pytest.raises(EngineError, match="no Docker engine answers"):
            compare_images(
                "reprobuild-test/nothing:1", "x", {**engine.env, "DOCKER_HOST": "unix:///none"}, print
            )
        return
    engine.module.load(tiny.layout, tiny.reference, tiny.digests, engine.env)
    said: list[str] = []
    found = compare_images(str(tiny.layout), tiny.reference, engine.env, said.append)
    engine.client("rmi", tiny.reference)
    assert (found.level in ("config", "manifest"), found.files) == (True, ())
    assert found.other.form.endswith(" of docker")
    assert found.other.config == tiny.digests[0]
    assert f"{tiny.reference} is no file: saving the image of that name from docker" in said
    with pytest.raises(
        EngineError, match="Docker has no image 'reprobuild-test/nothing:1', and there is"
    ) as failed:
        compare_images("reprobuild-test/nothing:1", "x", engine.env, said.append)
    assert failed.value.hint == "`docker images` lists what it has"
