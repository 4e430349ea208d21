"""Routes that change jobs: stop, tag, delete, note, run again."""

import re
from collections.abc import Callable, Iterator
from functools import partial

from trackside.errors import InputError, TracksideError
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import has_source
from trackside.page.call import Answer, Api, Call
from trackside.page.problems import BadRequest, NotAllowed
from trackside.page.run_again import has_secrets, request_again
from trackside.records.rights import Rights
from trackside.texts.shown_names import JOB_NAME, wire_name
from trackside.texts.unique_names import unique_name, without_time
from trackside.views.table.job_table import JobTable

NOTE_MOST = 100_000


def action_routes(jobs: Jobs, table: JobTable) -> Iterator[Api]:
    routes = _ActionRoutes(jobs, table)
    may = Rights.SUBMIT
    yield Api("POST", "jobs/stop", routes.stop, may)
    yield Api("POST", "jobs/tag", routes.tag, may)
    yield Api("POST", "jobs/delete", routes.delete, may, is_heavy=True)
    yield Api("POST", "jobs/{name}/note", routes.note, may)
    yield Api("POST", "jobs/{name}/again", routes.again, may)


class _ActionRoutes:
    def __init__(self, jobs: Jobs, table: JobTable) -> None:
        self._jobs = jobs
        self._table = table

    def stop(self, call: Call) -> Answer:
        return _each(call, self._jobs.stop)

    def tag(self, call: Call) -> Answer:
        put = call.body.texts("put", most=50)
        remove = call.body.names("remove", most=50, default=True)

        def change(name: str) -> None:
            self._jobs.change_tags(name, put=put, remove=remove)
            self._table.changed(name)

        return _each(call, change)

    def delete(self, call: Call) -> Answer:
        data = call.body.flag("data")
        return _each(call, partial(self._jobs.delete, data=data))

    def note(self, call: Call) -> Answer:
        call.check_may_change(call.job)
        noted = self._jobs.set_note(call.job, call.body.text("text", most=NOTE_MOST))
        self._table.changed(call.job)
        return {"note": noted}

    def again(self, call: Call) -> Answer:
        """The new job belongs to who asks for it; secrets of another's job are not passed on."""
        changes = call.body.texts("hyperparameters", may_be_null=True)
        given = call.body.text("name", "", most=200)
        name = wire_name(given) if given else unique_name(without_time(call.job))
        if not re.fullmatch(JOB_NAME, name):
            raise BadRequest(
                f"A job cannot be called {given!r}.",
                "Give 1 to 63 letters and digits, with - . _ between them.",
            )
        spec = self._jobs.record(call.job).spec
        request = request_again(spec, name, changes)
        if has_secrets(request) and not call.access.may_see_secrets(call.person, call.job):
            raise NotAllowed(
                f"The job {call.job!r} has secrets of its owner, and cannot be run again by others."
            )
        if not has_source(spec, self._jobs.settings.layout):
            raise InputError(f"The code of {call.job!r} is no longer stored. Submit it again.")
        call.access.submit(call.person, request)
        return {"name": name}


def _each(call: Call, change: Callable[[str], object]) -> Answer:
    """One after the other; what fails does not keep the others."""
    done, failed = [], []
    for name in call.body.names("jobs"):
        if call.stop.is_set():
            break
        try:
            call.check_may_change(name)
            change(name)
            done.append(name)
        except TracksideError as error:
            failed.append({"job": name, "message": error.message})
    return {"done": done, "failed": failed}
