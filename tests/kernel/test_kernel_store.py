"""The cache: whole entries or none, bounded, and never one that is in use."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bisector.kernel.store import ImageCache


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    path.write_bytes(os.urandom(10_000))
    return path


def _key(number: int) -> str:
    return f"{number:064x}"


def test_what_was_put_is_found_with_its_facts(tmp_path: Path, image: Path) -> None:
    cache = ImageCache(tmp_path / "cache", 1 << 20)
    assert cache.find(_key(1)) is None
    cache.put(_key(1), image=image, config="CONFIG_A=y\n", facts={"release": "6.1"})
    found = ImageCache(tmp_path / "cache", 1 << 20).find(_key(1))
    assert found is not None
    assert found.image.read_bytes() == image.read_bytes()
    assert (found.config, found.facts["release"]) == ("CONFIG_A=y\n", "6.1")
    assert list((tmp_path / "cache/drafts").iterdir()) == []


@pytest.mark.parametrize("harm", ["truncate", "flip", "no facts", "half facts", "no image", "no config"])
def test_a_torn_entry_is_not_found_and_is_removed(tmp_path: Path, image: Path, harm: str) -> None:
    cache = ImageCache(tmp_path / "cache", 1 << 20)
    entry = cache.put(_key(1), image=image, config="", facts={}).image.parent
    match harm:
        case "truncate":
            os.truncate(entry / "bzImage", 100)
        case "flip":
            data = bytearray((entry / "bzImage").read_bytes())
            data[5000] ^= 1
            (entry / "bzImage").write_bytes(data)
        case "half facts":
            (entry / "image.json").write_text('{"sha256": "')
        case _:
            (entry / {"no facts": "image.json", "no image": "bzImage", "no config": "config"}[harm]).unlink()
    assert cache.find(_key(1)) is None
    assert not entry.exists()
    assert cache.put(_key(1), image=image, config="", facts={}).image.exists()


def test_the_least_recently_used_goes_first(tmp_path: Path, image: Path) -> None:
    for number in (1, 2, 3):
        cache = ImageCache(tmp_path / "cache", 35_000)
        cache.put(_key(number), image=image, config="", facts={})
        cache.close()
        os.utime(tmp_path / f"cache/images/00/{_key(number)}/image.json", (number, number))
    reader = ImageCache(tmp_path / "cache", 35_000)
    assert reader.find(_key(1)) is not None
    reader.close()
    cache.put(_key(4), image=image, config="", facts={})
    left = {path.name for path in (tmp_path / "cache/images/00").iterdir()}
    assert left == {_key(1), _key(3), _key(4)}


def test_what_this_cache_uses_stays_even_above_the_bound(tmp_path: Path, image: Path) -> None:
    cache = ImageCache(tmp_path / "cache", 15_000)
    for number in (1, 2, 3):
        cache.put(_key(number), image=image, config="", facts={})
    assert all(cache.find(_key(number)) for number in (1, 2, 3))
    cache.close()
    ImageCache(tmp_path / "cache", 15_000).put(_key(4), image=image, config="", facts={})
    assert len(list((tmp_path / "cache/images/00").iterdir())) == 1


def test_what_another_process_uses_stays_until_it_dies(tmp_path: Path, image: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom bisector.kernel.store import ImageCache\n"
        "c = ImageCache(Path(sys.argv[1]), 15000)\n"
        "c.put(sys.argv[3], image=Path(sys.argv[2]), config='', facts={})\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "cache"), str(image), _key(1)], stdout=subprocess.PIPE
    )
    cache = ImageCache(tmp_path / "cache", 15_000)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        cache.put(_key(2), image=image, config="", facts={})
        assert (tmp_path / "cache/images/00" / _key(1)).exists()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    cache.put(_key(3), image=image, config="", facts={})
    assert not (tmp_path / "cache/images/00" / _key(1)).exists()


def test_two_sessions_that_store_one_key_agree(tmp_path: Path, image: Path) -> None:
    caches = [ImageCache(tmp_path / "cache", 1 << 20) for _ in range(4)]
    paths: list[Path] = []

    def put(cache: ImageCache) -> None:
        for _ in range(5):
            paths.append(cache.put(_key(1), image=image, config="", facts={}).image)

    threads = [threading.Thread(target=put, args=(cache,)) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 20
    assert len(set(paths)) == 1
    assert json.loads((paths[0].parent / "image.json").read_text())["sha256"]
    assert list((tmp_path / "cache/drafts").iterdir()) == []
