"""The folder of an interrupted run, and where a model folder may be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from treeformer.errors import TreeformerError
from treeformer.finetuning import finetune, measuring, result, work_folder
from treeformer.finetuning.plan import Schedule
from treeformer.finetuning.run import SavedRun
from treeformer.finetuning.work_folder import check_output, lock_file_of, open_work_folder, other_runs, write_plan


def test_a_run_with_other_options_keeps_the_interrupted_one(tmp_path):
    output = tmp_path / "mine"
    folder, plan = open_work_folder(output, "first")
    assert plan == {}
    write_plan(folder, {"fingerprint": "first", "working_px": 3})
    (folder / "checkpoint").write_text("steps")

    folder, plan = open_work_folder(output, "second")
    assert plan == {}
    assert list(folder.iterdir()) == []
    assert len(other_runs(output)) == 1
    write_plan(folder, {"fingerprint": "second"})

    folder, plan = open_work_folder(output, "first")
    assert plan == {"fingerprint": "first", "working_px": 3}
    assert (folder / "checkpoint").read_text() == "steps"
    assert len(other_runs(output)) == 1
    (tmp_path / "-0123456789ab").mkdir()  # not ours
    assert len(other_runs(output)) == 1
    assert other_runs(tmp_path / "other") == []


def test_the_record_of_an_earlier_version_is_continued(tmp_path):
    """The names are those of version 0.1; `begun` is new."""
    output = tmp_path / "mine"
    folder, _ = open_work_folder(output, "key")
    schedule = {"crops": 8, "steps": 4, "batch_size": 2, "validate_every": 2, "seconds": 10.0}
    stored = {"fingerprint": "key", "unannotated": True, "working_px": 0, "limit": 900.0, "schedule": schedule}
    write_plan(folder, stored | {"first": 0.5, "agreement": {"a.png": 0.75}, "labeled": True})
    saved, continues = SavedRun.open(output, "key")
    expected = SavedRun("key", True, 0, 900.0, Schedule(**schedule), 0.5, {"a.png": 0.75}, labeled=True)
    assert continues
    assert saved == expected
    saved.write(folder)
    assert SavedRun.open(output, "key") == (expected, True)
    write_plan(folder, stored | {"schedule": {"crops": "many"}})
    with pytest.raises(
        TreeformerError,
        match=r"plan\.json: schedule: crops must be a whole number, not 'many'; remove .*mine-finetune to ",
    ):
        SavedRun.open(output, "key")
    assert SavedRun.open(tmp_path / "other", "key") == (SavedRun("key"), False)


def test_a_folder_without_a_plan_is_begun_anew(tmp_path):
    folder, _ = open_work_folder(tmp_path / "mine", "first")
    (folder / "half").write_text("")
    folder, plan = open_work_folder(tmp_path / "mine", "first")
    assert (plan, list(folder.iterdir()), other_runs(tmp_path / "mine")) == ({}, [], [])


def test_places_to_which_no_folder_can_be_moved_are_refused_before_the_work(tmp_path):
    (tmp_path / "folder").mkdir()
    check_output(tmp_path / "folder")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    for name in ("link", "nowhere"):
        with pytest.raises(TreeformerError, match="is a link"):
            check_output(tmp_path / name)
    for output in (Path(), Path("/")):
        with pytest.raises(TreeformerError, match="give the new model folder a name"):
            check_output(output)


def test_two_runs_do_not_write_the_same_model(drawings, start_model, tmp_path):
    from treeformer._util.locks import sole_lock

    with (
        sole_lock(lock_file_of(tmp_path / "mine")),
        pytest.raises(TreeformerError, match="another run is writing this model"),
    ):
        finetune.finetune(drawings, tmp_path / "mine", start=start_model, device="cpu")
    assert not work_folder.work_folder_of(tmp_path / "mine").exists()


def test_the_time_limit_is_finite(drawings, start_model, tmp_path):
    for minutes in (0.0, float("inf"), float("nan")):
        with pytest.raises(TreeformerError, match="must be positive and finite"):
            finetune.finetune(drawings, tmp_path / "mine", start=start_model, device="cpu", max_minutes=minutes)


@pytest.mark.slow
def test_a_refused_run_leaves_nothing_behind(drawings, start_model, tmp_path, monkeypatch):
    def refuse(*_arguments):
        raise TreeformerError("the time limit is too short")

    monkeypatch.setattr(finetune, "_make_task", refuse)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes((drawings / "plant0.png").read_bytes())
    for folder in (drawings, tmp_path / "photos"):  # the second has no annotated image
        for output in (tmp_path / "mine", tmp_path / "new" / "models" / "mine"):
            with pytest.raises(TreeformerError):
                finetune.finetune(folder, output, start=start_model, device="cpu")
            assert [path.name for path in tmp_path.iterdir()] == ["photos"]

    def stop(*_arguments):
        raise KeyboardInterrupt

    output = tmp_path / "new" / "mine"
    for interrupt in (stop, refuse):  # the second would have continued the first
        monkeypatch.setattr(finetune, "_make_task", interrupt)
        with pytest.raises((KeyboardInterrupt, TreeformerError)):
            finetune.finetune(drawings, output, start=start_model, device="cpu")
        assert [path.name for path in work_folder.work_folder_of(output).iterdir()] == ["plan.json"]
    with pytest.raises(TreeformerError):  # another run, which puts the first aside
        finetune.finetune(drawings, output, start=start_model, device="cpu", seed=1)
    assert [path.name for path in other_runs(output)] == [path.name for path in output.parent.iterdir()]
    assert len(other_runs(output)) == 1


@pytest.mark.slow
def test_an_error_during_the_training_keeps_the_work_folder(drawings, start_model, tmp_path, monkeypatch):
    """Until the schedule is made, an error is a refusal."""
    for name, begun in (("refused", False), ("failed", True)):

        def train(_run, _task, saved, begun=begun):
            saved.begun = begun
            raise TreeformerError("the loss is not a number")

        monkeypatch.setattr(finetune, "train_on_cached_features", train)
        monkeypatch.setattr(measuring, "ENGINE", "torch")
        monkeypatch.setattr(result, "rehearse", lambda *_: 0.0)
        with pytest.raises(TreeformerError, match="not a number"):
            finetune.finetune(drawings, tmp_path / name, start=start_model, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == [".failed-finetune"]
