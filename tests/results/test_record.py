"""The record of where the images of a folder of results are."""

from __future__ import annotations

import threading

from treeformer.inference.batch import plan
from treeformer.results.record import read_record, write_record

RUNS = 8


def test_runs_that_end_in_the_same_moment_keep_all_images(tmp_path):
    """Each reads the record and adds its images. Without a lock, the last one would drop those of the others."""
    jobs = []
    for number in range(RUNS):
        image = tmp_path / "in" / str(number) / "a.png"
        image.parent.mkdir(parents=True)
        image.touch()
        jobs.append(plan([image], tmp_path / "out" / str(number)))
    (tmp_path / "out").mkdir()
    together = threading.Barrier(RUNS)

    def write(number: int) -> None:
        together.wait()
        write_record(tmp_path / "out", [jobs[number][0].image], jobs[number])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(RUNS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not list((tmp_path / "out").glob(".*.lock"))
    record = read_record(tmp_path / "out")
    assert sorted(record.stems.values()) == [f"{number}/a" for number in range(RUNS)]
