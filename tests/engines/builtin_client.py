"""The built-in engine has no program of its own: its answers to the questions that tests ask of other engines."""

from __future__ import annotations

from collections.abc import Mapping

from reprobuild.engines.builtin_images import UnpackedImage, UnpackedImages
from reprobuild.engines.image_records import ImageRecords


def answer(env: Mapping[str, str], command: str, *arguments: str) -> str:
    """Answer `images --quiet NAME`, `rmi NAME`, `image inspect ... NAME` and `ps ...`."""
    images = UnpackedImages.open_user_cache(env)
    records = ImageRecords(images.folder, UnpackedImage)
    if command == "ps":
        return "\n".join(path.name for path in (images.folder / "containers").iterdir())
    record = records.find(arguments[-1])
    if command == "rmi":
        assert record, f"no image {arguments[-1]}"
        records._name(arguments[-1]).unlink()
        records._path(record).unlink()
        images._remove_unused()
        return ""
    return record.config if record else ""
