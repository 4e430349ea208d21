"""Routes about what a job is made of: setup, code, stored files, and how code differs."""

from collections.abc import Iterator
from dataclasses import asdict

from trackside.jobs.jobs import Jobs
from trackside.page.call import Answer, Api, Call, Download
from trackside.page.problems import NotThere
from trackside.views.job.job_files import open_file
from trackside.views.job_setup.code_diff import code_diff
from trackside.views.job_setup.setup import code_of, setup_of


def setup_routes(jobs: Jobs) -> Iterator[Api]:
    routes = _SetupRoutes(jobs)
    yield Api("GET", "jobs/{name}/setup", routes.setup, is_heavy=True)
    yield Api("GET", "jobs/{name}/code", routes.code)
    yield Api("GET", "jobs/{name}/artifact", routes.artifact)
    yield Api("GET", "compare/code", routes.difference, is_heavy=True)


class _SetupRoutes:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def setup(self, call: Call) -> Answer:
        return setup_of(self._jobs, call.job).to_json()

    def code(self, call: Call) -> Answer:
        return asdict(code_of(self._jobs, call.job, call.query.text("path")))

    def artifact(self, call: Call) -> Answer:
        file = open_file(self._jobs, call.job, call.query.text("name"))
        if file.pieces is None:
            raise NotThere(f"{file.name!r} is a folder.", "Download its files one by one.")
        shown = file.name.rpartition("/")[2]
        return Download(shown, file.size_bytes, file.pieces())

    def difference(self, call: Call) -> Answer:
        one, other = call.query.text("a"), call.query.text("b")
        return {"files": [each.to_json() for each in code_diff(self._jobs, one, other)]}
