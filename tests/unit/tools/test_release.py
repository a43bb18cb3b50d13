"""`make release` in a small repository; building and installing are replaced."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

import release
from check_package import PackageError, check_contents
from release import CHANGES, CITATION, VERSION_FILE, ReleaseError

DATE = re.compile(r"\((\d{4}-\d\d-\d\d)\)")
FILES = {
    VERSION_FILE: '"""The version."""\n\n__version__ = "0.2.0"\n',
    CITATION: "cff-version: 1.2.0\nversion: 0.2.0\ndate-released: 2026-11-29\n",
    CHANGES: "# Changelog\n\n## 0.3.0 (unreleased)\n\n### New\n\n- A command.\n\n"
    "## 0.2.0 (2026-11-29)\n\n### New\n\n- Much.\n",
    "pyproject.toml": "[project]\nname = 'x'\n",
    ".gitignore": "dist/\n",
}


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(root: Path, message: str, **files: str) -> str:
    for name, text in files.items():
        (root / name).write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository where 0.2.0 is released and 0.3.0 has a change."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    folder = tmp_path / "repository"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder, "First")
    return folder


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the build; return the commits that are built."""
    commits = []

    def check_files(commit: str, version: str, root: Path, folder: Path) -> list[Path]:
        commits.append(commit)
        (folder / f"x-{version}.whl").write_text(commit)
        return [folder / f"x-{version}.whl"]

    monkeypatch.setattr(release, "check_files", check_files)
    return commits


def state(root: Path) -> tuple[str, ...]:
    """Return everything that a failed release must leave as it is."""
    texts = [(root / name).read_text() for name in FILES]
    status = git(root, "status", "--porcelain", "--ignored")
    return (*texts, git(root, "rev-parse", "HEAD"), git(root, "tag"), status)


def test_a_release_is_a_commit_with_a_tag(root: Path, built: list[str]) -> None:
    before = git(root, "rev-parse", "HEAD")
    assert release.main(["0.3.0"], root) == 0
    head = git(root, "rev-parse", "HEAD")
    assert built == [head] == [git(root, "rev-list", "-1", "v0.3.0")]
    assert git(root, "log", "--format=%s %P", "-1") == f"Release 0.3.0 {before}"
    assert git(root, "cat-file", "-t", "v0.3.0") == "tag"  # annotated: `--follow-tags` pushes it
    assert git(root, "branch", "--show-current") == "main"
    assert not git(root, "status", "--porcelain")


def test_a_release_states_version_and_date_everywhere(root: Path, built: list[str]) -> None:
    assert release.main(["0.3.0"], root) == 0
    assert '__version__ = "0.3.0"\n' in (root / VERSION_FILE).read_text()
    changes = (root / CHANGES).read_text()
    date = DATE.findall(changes)[0]
    assert (root / CITATION).read_text() == (
        f"cff-version: 1.2.0\nversion: 0.3.0\ndate-released: {date}\n"
    )
    assert changes.startswith("# Changelog\n\n## 0.4.0 (unreleased)\n\nChanges that users notice")
    assert f"\n## 0.3.0 ({date})\n\n### New\n\n- A command.\n\n## 0.2.0 (2026-11-29)\n" in changes


def test_files_checksums_and_upload_are_shown(
    root: Path, built: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.main(["0.3.0"], root) == 0
    said = capsys.readouterr().out
    assert hashlib.sha256((root / "dist" / "x-0.3.0.whl").read_bytes()).hexdigest() in said
    assert said.endswith(
        "To upload:\n  git push --follow-tags\n  python -m twine upload dist/x-0.3.0.whl\n"
    )
    assert f"changes {VERSION_FILE}, {CITATION}, {CHANGES}\n" in said
    assert "no [project.urls]" in said


def test_the_same_release_again_changes_nothing(root: Path, built: list[str]) -> None:
    assert release.main(["0.3.0"], root) == 0
    before = state(root)
    assert release.main(["0.3.0"], root) == 0
    assert state(root) == before
    assert len(set(built)) == 1


def test_a_clone_without_tags_builds_the_same_commit(
    root: Path, built: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.main(["0.3.0"], root) == 0
    git(root, "clone", "--quiet", "--no-tags", str(root), str(tmp_path / "clone"))
    assert release.main(["0.3.0"], tmp_path / "clone") == 0
    assert built[0] == built[1]
    assert f"git tag --annotate v0.3.0 --message 'tbd-trace 0.3.0' {built[0][:12]}" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("tagged", [True, False])
def test_a_released_version_is_built_without_later_changes(
    root: Path, built: list[str], tagged: bool
) -> None:
    assert release.main(["0.3.0"], root) == 0
    if not tagged:
        git(root, "tag", "--delete", "v0.3.0")
    text = (root / CHANGES).read_text()
    later = text.replace("## 0.3.0 (2", "### Fixed\n\n- A bug.\n\n## 0.3.0 (2")
    commit(root, "Fix a bug", **{CHANGES: later})
    assert release.main(["0.3.0"], root) == 0
    assert built[0] == built[1] != git(root, "rev-parse", "HEAD")


def test_commits_that_users_do_not_notice_belong_to_an_untagged_release(
    root: Path, built: list[str]
) -> None:
    assert release.main(["0.3.0"], root) == 0
    git(root, "tag", "--delete", "v0.3.0")
    head = commit(root, "Test more", new="x")
    assert release.main(["0.3.0"], root) == 0
    assert built[1] == head


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("", "VERSION: missing; use `make release VERSION=0.3.0`"),
        ("0.3", "VERSION=0.3: not a version; use three numbers, such as 0.3.0"),
        ("v0.3.0", "VERSION=v0.3.0: not a version; use three numbers, such as 0.3.0"),
        ("0.1.9", "VERSION=0.1.9: older than 0.2.0; use a newer version"),
        ("0.4.0", "CHANGELOG.md: no section of 0.4.0; name the section of the next version so"),
    ],
)
def test_a_wrong_version_is_a_usage_error(
    root: Path, capsys: pytest.CaptureFixture[str], version: str, message: str
) -> None:
    before = state(root)
    assert release.main([version], root) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert state(root) == before


def test_a_section_without_changes_is_not_released(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(root, "Undo", **{CHANGES: FILES[CHANGES].replace("### New\n\n- A command.\n", "")})
    assert release.main(["0.3.0"], root) == 2
    assert "CHANGELOG.md: section 0.3.0 has no changes; add" in capsys.readouterr().err


def test_a_tag_of_another_commit_is_kept(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(root, "tag", "v0.3.0")
    before = state(root)
    assert release.main(["0.3.0"], root) == 2
    assert "VERSION=0.3.0: has the tag v0.3.0; use" in capsys.readouterr().err
    assert state(root) == before


@pytest.mark.parametrize("name", ["new.txt", CHANGES])
def test_uncommitted_files_are_refused(
    root: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (root / name).write_text("changed")
    before = state(root)
    assert release.main(["0.3.0"], root) == 1
    assert capsys.readouterr().err == f"error: {name}: not committed; commit or remove it\n"
    assert state(root) == before


def test_a_file_without_the_version_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(root, "Cite", **{CITATION: "cff-version: 1.2.0\n"})
    before = state(root)
    assert release.main(["0.3.0"], root) == 1
    assert "CITATION.cff: 0 places for 0.3.0; keep one" in capsys.readouterr().err
    assert state(root) == before


@pytest.mark.parametrize("error", [PackageError, KeyboardInterrupt])
def test_a_failed_check_leaves_everything_as_it_is(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def check_files(*_: object) -> list[Path]:
        raise error("two builds differ")

    monkeypatch.setattr(release, "check_files", check_files)
    before = state(root)
    if error is PackageError:
        assert release.main(["0.3.0"], root) == 1
    else:
        with pytest.raises(error):
            release.main(["0.3.0"], root)
    assert state(root) == before


def test_a_branch_that_moved_during_the_checks_gets_neither_commit_nor_tag(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check_files(*_: object) -> list[Path]:
        commit(root, "Another", other="x")
        return []

    monkeypatch.setattr(release, "check_files", check_files)
    assert release.main(["0.3.0"], root) == 1
    assert "error: git merge: " in capsys.readouterr().err
    assert git(root, "log", "--format=%s", "-1") == "Another"
    assert not git(root, "tag")
    assert not (root / "dist").exists()


def test_errors_of_git_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"^git status: fatal: not a git repository[^\n]*$"):
        release.git(tmp_path, "status")


# contents of the files


def test_an_sdist_has_committed_files_only(tmp_path: Path) -> None:
    source = tmp_path / "x-1"
    source.mkdir()
    (source / "README.md").write_text("x")
    archive = tmp_path / "x-1.tar.gz"
    (source / "PKG-INFO").write_text("x")
    _pack(archive, source)
    (source / "PKG-INFO").unlink()
    check_contents(archive, source)
    (source / "untracked").write_text("x")
    _pack(archive, source)
    (source / "untracked").unlink()
    with pytest.raises(PackageError, match=r"too much \['untracked'\]"):
        check_contents(archive, source)


def _pack(archive: Path, folder: Path) -> None:
    subprocess.run(
        ["tar", "czf", archive, "-C", folder.parent, folder.name], check=True, capture_output=True
    )
