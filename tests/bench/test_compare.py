"""Two commits, timed in turns: a slower path is named with its interval."""

import subprocess
from pathlib import Path

import pytest
from bench.commits import base, built
from bench.compare import compare

pytestmark = pytest.mark.slow

SLOWER = '''
_plain = parse_match


def parse_match(body: bytes) -> MatchInput:
    """Burns as long as some requests take."""
    for _ in range(10_000):
        pass
    return _plain(body)
'''


@pytest.mark.timeout(300)  # six processes time all hot paths
def test_a_slower_path_is_named_with_its_interval() -> None:
    with built("HEAD", "HEAD") as (first, second):
        source = second / "src/sepu/operations/match.py"
        source.write_text(source.read_text("utf-8") + SLOWER, "utf-8")
        found = compare(first, second, pairs=3)
    assert found["operation: match"].word == found["judgement: match"].word == "slower"
    assert found["operation: match"].low > 1.2


def test_the_base_is_where_a_branch_left_main_and_on_main_the_commit_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit() -> str:
        git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--allow-empty", "--message=a")
        return git("rev-parse", "HEAD")

    git("init", "--initial-branch=main")
    first, second = commit(), commit()
    git("switch", "--create", "branch")
    third = (commit(), commit())[1]
    monkeypatch.setattr("bench.commits.ROOT", tmp_path)
    assert base(third) == second
    assert base(second) == first
    with pytest.raises(SystemExit, match="git fetch --unshallow"):
        base(first)
