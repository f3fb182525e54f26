"""Synthetic folders: complete pairs only, independent of the number of workers, resumable, and never mixed."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from treeformer import TreeformerError
from treeformer.data import FolderDataset, recipe
from treeformer.data.__main__ import main
from treeformer.data.generate import IMAGES_PER_TASK, generate
from treeformer.data.generate_series import generate_series
from treeformer.data.recipe import is_incomplete
from treeformer.synthetic import SPLITS, make_image

SIZE = (80, 64)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_files_and_report(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    report = generate(tmp_path / "s", count=3, seed=120_000, size=SIZE, progress=lambda *call: calls.append(call))
    stems = ["120000", "120001", "120002"]
    names = {f"{stem}{suffix}" for stem in stems for suffix in (".png", ".json")} | {"dataset.yaml"}
    assert set(contents(tmp_path / "s")) == names
    assert yaml.safe_load((tmp_path / "s" / "dataset.yaml").read_text()) == {
        "made_by": "treeformer generate",
        "preset": "paper",
        "style": "paper",
        "seed": 120_000,
        "count": 3,
        "size": [80, 64],
    }
    assert (report.created, report.kept) == (3, 0)
    assert calls[0] == (0, 3)
    assert calls[-1] == (3, 3)
    assert SPLITS["test"][0] == 120_000
    for sample, seed in zip(FolderDataset(tmp_path / "s"), SPLITS["test"], strict=False):
        image, skeleton = make_image("paper", "paper", seed, SIZE)
        assert np.array_equal(sample.image, image)
        assert sample.skeleton == skeleton.replace(image_name=sample.name)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["empty", "vineyard", "plate"])
def test_radii_and_images_without_a_plant_survive_the_files(tmp_path: Path, preset: str) -> None:
    generate(tmp_path / "s", count=2, preset=preset, style="photo", size=SIZE)
    for seed, sample in enumerate(FolderDataset(tmp_path / "s")):
        image, skeleton = make_image(preset, "photo", seed, SIZE)
        assert np.array_equal(sample.image, image)
        assert sample.skeleton.radius is not None
        assert np.array_equal(sample.skeleton.radius, skeleton.radius)
        assert (len(sample.skeleton) == 0) == (preset == "empty")


def test_jpeg_files_are_close_to_the_images(tmp_path: Path) -> None:
    generate(tmp_path / "s", count=2, style="photo", size=SIZE, suffix="jpg")
    assert sorted(contents(tmp_path / "s")) == [
        "000000.jpg",
        "000000.json",
        "000001.jpg",
        "000001.json",
        "dataset.yaml",
    ]
    for seed, sample in enumerate(FolderDataset(tmp_path / "s")):
        image, skeleton = make_image("paper", "photo", seed, SIZE)
        assert np.abs(sample.image.astype(int) - image).mean() < 8
        assert sample.skeleton == skeleton.replace(image_name=sample.name)
    assert generate(tmp_path / "s", count=3, style="photo", size=SIZE, suffix="jpg").kept == 2
    with pytest.raises(TreeformerError, match="was created with suffix jpg"):
        generate(tmp_path / "s", count=3, style="photo", size=SIZE)


@pytest.mark.slow
def test_the_module_is_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "treeformer.data", str(tmp_path / "s"), "--size", "64", "--workers", "1"]
    done = subprocess.run([*command, "--count", "2", "--jpeg"], capture_output=True, text=True, check=True)
    assert "2 images created" in done.stdout
    assert len(list((tmp_path / "s").glob("*.jpg"))) == 2
    failed = subprocess.run([*command, "--count", "0"], capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stderr) == (2, "treeformer: count must be at least 1, not 0\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: out. See python -m treeformer.data --help"),
        (["OUT", "--count", "many"], "argument --count: invalid int value: 'many'. See"),
        (["OUT", "--preset", "oak"], "unknown preset 'oak': choose one of paper, "),
        (["OUT", "--size", "1000000"], "must be at most 16384 px long, not 1000000×1000000"),
        (["FILE"], "FILE: cannot be written to (Not a directory)"),
        (["FILE/below"], "FILE/below: cannot be written to (Not a directory)"),
    ],
)
def test_a_wrong_argument_of_the_module_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "FILE").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    output = capsys.readouterr()
    assert stopped.value.code == 2
    assert output.out == ""
    assert output.err.startswith("treeformer: ")
    assert message in output.err
    assert output.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


@pytest.mark.slow
def test_workers_and_resuming_give_the_same_files(tmp_path: Path) -> None:
    generate(tmp_path / "one", count=20, size=SIZE)
    generate(tmp_path / "two", count=20, size=SIZE, workers=2)
    generate(tmp_path / "none", count=20, size=SIZE, workers=0)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "none")

    generate(tmp_path / "three", count=5, size=SIZE)
    (tmp_path / "three" / "000002.json").unlink()  # an incomplete pair is created again
    (tmp_path / "three" / ".000004-x.png").write_bytes(b"left by an interrupted program")
    kept = (tmp_path / "three" / "000000.png").stat().st_mtime_ns
    report = generate(tmp_path / "three", count=20, size=SIZE)
    assert (report.created, report.kept) == (16, 4)
    assert (tmp_path / "three" / "000000.png").stat().st_mtime_ns == kept
    (tmp_path / "three" / ".000004-x.png").unlink()
    assert contents(tmp_path / "one") == contents(tmp_path / "three")

    assert str(report).endswith("three: 16 images created, 4 already there")
    assert str(generate(tmp_path / "three", count=21, size=SIZE)).endswith("three: 1 image created, 20 already there")

    fewer = generate(tmp_path / "one", count=7, size=SIZE)
    assert (fewer.created, fewer.kept) == (0, 7)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"style": "photo"}, "was created with style paper, not photo"),
        ({"preset": "vine"}, "was created with preset paper, not vine"),
        ({"seed": 7}, "was created with seed 0, not 7"),
        ({"size": (64, 80)}, r"was created with size \[80, 64\], not \[64, 80\]"),
    ],
)
def test_other_settings_are_an_error(tmp_path: Path, change, message) -> None:
    generate(tmp_path, count=1, size=SIZE)
    before = contents(tmp_path)
    with pytest.raises(TreeformerError, match=message):
        generate(tmp_path, **({"count": 1, "size": SIZE} | change))
    assert contents(tmp_path) == before


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("hello")
    with pytest.raises(TreeformerError, match="holds other files"):
        generate(tmp_path, count=1, size=SIZE)
    with pytest.raises(TreeformerError, match="is a file"):
        generate(tmp_path / "letter.txt", count=1, size=SIZE)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "dataset.yaml").write_text("[1, 2")
    with pytest.raises(TreeformerError, match=r"dataset\.yaml: not YAML"):
        generate(tmp_path / "set", count=1, size=SIZE)
    (tmp_path / "set" / "dataset.yaml").write_text("date: 2024-02-30")
    with pytest.raises(TreeformerError, match=r"dataset\.yaml: not YAML: day is out of range"):
        generate(tmp_path / "set", count=1, size=SIZE)
    (tmp_path / "set" / "dataset.yaml").write_text("- 1")
    with pytest.raises(TreeformerError, match=r"dataset\.yaml: not a mapping"):
        generate(tmp_path / "set", count=1, size=SIZE)


@pytest.mark.parametrize(
    "invalid", [{"count": 0}, {"workers": -1}, {"preset": "tulip"}, {"style": "oil"}, {"seed": -1}, {"size": (8, 8)}]
)
def test_invalid_arguments_write_nothing(tmp_path: Path, invalid) -> None:
    with pytest.raises(TreeformerError) as error:
        generate(tmp_path / "s", **({"count": 1, "size": SIZE} | invalid))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process group")
def test_an_interrupt_leaves_only_complete_pairs(tmp_path: Path) -> None:
    program = (
        "from treeformer.data.generate import generate\n"
        "if __name__ == '__main__':\n"
        f"    generate({str(tmp_path / 's')!r}, count=4000, size=(80, 64), workers=2)\n"
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    process = subprocess.Popen([sys.executable, script], start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 600
        while len(list((tmp_path / "s").glob("*.png"))) < 40 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode != 0
    assert errors.strip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1  # the workers print nothing
    names = {path.name for path in (tmp_path / "s").iterdir()}
    assert {name for name in names if name.startswith(".")} == {".incomplete"}
    dataset = FolderDataset(tmp_path / "s", allow_incomplete=True)
    assert dataset.skipped == []
    assert len(dataset) < 4000
    report = generate(tmp_path / "s", count=len(dataset), size=(80, 64))
    assert report.kept > 0


def fail_after_some(task, items, workers, then) -> None:
    then(task(items[0]))
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_run_that_failed_leaves_a_folder_that_is_not_used(tmp_path: Path, monkeypatch) -> None:
    """Nobody should train on a part of a data set without knowing it."""
    with monkeypatch.context() as patch:
        patch.setattr("treeformer.data.generate.for_each", fail_after_some)
        with pytest.raises(TreeformerError, match=r"cannot be written \(No space left on device\)"):
            generate(tmp_path / "s", count=20, size=SIZE)
    with pytest.raises(TreeformerError, match=r"is incomplete, .* repeat the command, or remove .*\.incomplete"):
        FolderDataset(tmp_path / "s")
    assert len(FolderDataset(tmp_path / "s", allow_incomplete=True)) == IMAGES_PER_TASK
    assert generate(tmp_path / "s", count=20, size=SIZE).kept == IMAGES_PER_TASK
    assert len(FolderDataset(tmp_path / "s")) == 20
    (tmp_path / "s" / ".incomplete").touch()  # killed after the last image
    generate(tmp_path / "s", count=20, size=SIZE)
    assert len(FolderDataset(tmp_path / "s")) == 20


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(functools.partial(generate, size=SIZE), id="images"),
        pytest.param(functools.partial(generate_series, dates=2, preset="taproot", style="paper"), id="series"),
    ],
)
def test_a_smaller_count_does_not_complete_an_interrupted_run(tmp_path: Path, write) -> None:
    write(tmp_path / "s", count=4)
    for path in tmp_path.glob("s/000003*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (tmp_path / "s" / ".incomplete").touch()
    write(tmp_path / "s", count=2)
    assert is_incomplete(tmp_path / "s")
    write(tmp_path / "s", count=3)
    assert is_incomplete(tmp_path / "s")
    write(tmp_path / "s", count=4)
    assert not is_incomplete(tmp_path / "s")


def test_numbers_may_be_integers_of_numpy(tmp_path: Path) -> None:
    two, size = np.int64(2), (np.int64(80), np.int32(72))
    generate(tmp_path / "images", count=two, seed=two, size=size)
    assert generate(tmp_path / "images", count=2, seed=2, size=(80, 72)).kept == 2
    generate_series(tmp_path / "series", count=two, dates=two, seed=two, style="paper", size=size)
    assert generate_series(tmp_path / "series", count=2, dates=2, seed=2, style="paper", size=(80, 72)).kept == 4


@pytest.mark.parametrize("count", ["many", "null", "[3]", "3.5"])
def test_a_recorded_count_that_is_no_number_is_one_line(tmp_path: Path, count: str) -> None:
    generate(tmp_path / "s", count=2, size=SIZE)
    recipe_file = tmp_path / "s" / "dataset.yaml"
    recipe_file.write_text(recipe_file.read_text().replace("count: 2", f"count: {count}"))
    with pytest.raises(TreeformerError, match=r"dataset\.yaml: count must be a whole number, not "):
        generate(tmp_path / "s", count=1, size=SIZE)


@pytest.mark.slow
def test_a_killed_run_leaves_a_folder_that_is_not_used(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "treeformer.data", str(tmp_path / "s"), "--size", "64", "--workers", "1"]
    process = subprocess.Popen([*command, "--count", "100000"])
    while not list(tmp_path.glob("s/*.json")):
        time.sleep(0.02)
    process.kill()
    process.wait()
    with pytest.raises(TreeformerError, match="is incomplete"):
        FolderDataset(tmp_path / "s")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
def test_a_jpeg_that_is_not_written_completely_is_an_error(tmp_path: Path) -> None:
    """The kernel writes all but the last 100 bytes, as on a full disk. Pillow takes that for success."""
    generate(tmp_path / "whole", count=1, style="photo", size=(512, 512), suffix="jpg")
    limit = (tmp_path / "whole" / "000000.jpg").stat().st_size - 100
    program = (
        "import resource, signal, sys; from treeformer.data.__main__ import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "main([sys.argv[1], '--style', 'photo', '--count', '1', '--jpeg', '--workers', '1'])"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "s"], capture_output=True, text=True, check=False)
    assert "cannot be written (File too large)" in done.stderr
    assert not list(tmp_path.glob("s/*.jpg"))


def test_two_runs_that_begin_in_the_same_moment_do_not_mix(tmp_path: Path, monkeypatch) -> None:
    """Both find an empty folder. The first settings count."""
    both, first_reads = threading.Barrier(2), set()
    read = recipe.read_recipe

    def read_together(folder: Path) -> dict | None:
        found = read(folder)
        if threading.get_ident() not in first_reads:
            first_reads.add(threading.get_ident())
            both.wait()
        return found

    monkeypatch.setattr(recipe, "read_recipe", read_together)
    results: list[object] = []

    def claim(style: str) -> None:
        try:
            results.append(recipe.claim(tmp_path / "s", {"style": style}))
        except TreeformerError as error:
            results.append(str(error))

    threads = [threading.Thread(target=claim, args=(style,)) for style in ("paper", "photo")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [error] = [result for result in results if result is not None]
    assert "was created with style" in error
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["dataset.yaml"]
