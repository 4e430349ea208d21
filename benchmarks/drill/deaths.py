"""Processes that die: the script's, ours, all at once (cases 2, 4, 5, 6, 8, 9)."""

from benchmarks.drill.case import Case, Result, check, held
from benchmarks.drill.ground import Ground


def supervisor_dies(ground: Ground) -> Result:
    """The training goes on; its exit code and every line are known to the next supervisor."""
    job = ground.submit_numbered(300, pause=0.01, hold_at=100)
    for _ in range(5):
        job.wait_for_line("drill-line 100")
        job.replace_supervisor()
    ground.go()
    history = job.wait_over()
    check(job.status == "Completed", f"{job.status}: {history.failure_reason}")
    check(history.attempt == 1, f"attempt {history.attempt}: the training was started again")
    lines = job.count_lines(300)
    check(lines.is_exact, str(lines))
    return held(f"5 kills, {lines}")


CASES = (Case(4, "supervisor killed", supervisor_dies, seconds=15),)
