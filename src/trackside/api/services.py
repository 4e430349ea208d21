"""Assembles all services of a server."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from trackside.api import cloudwatch
from trackside.api.admission import Admission
from trackside.api.app import App
from trackside.api.call import Service
from trackside.api.fair_pool import ThreadPools
from trackside.api.form_service import FormLikeJsonService, FormService
from trackside.api.health import Health, checks
from trackside.api.identity import Iam, Sts
from trackside.api.job_credentials import JobCredentials
from trackside.api.keys import AccessKeys
from trackside.api.limits import Limits
from trackside.api.logs import logs
from trackside.api.page_access import PageAccess
from trackside.api.pages import make_pages
from trackside.api.quotas import Quotas
from trackside.api.s3.relay import S3Relay
from trackside.api.s3.service import S3
from trackside.api.sagemaker import sagemaker
from trackside.api.sessions import Sessions
from trackside.api.telemetry import Telemetry
from trackside.api.upkeep import BucketCleanup, GarbageCollector, Upkeep
from trackside.jobs.jobs import Jobs
from trackside.jobs.retention import Keep
from trackside.page.app import Page
from trackside.page.sessions import Sessions as PageSessions
from trackside.settings import Settings
from trackside.storage.credentials import s3_access, store_access

_CLOSE_SECONDS = 10.0


class Services:
    """Inside the block jobs are started and kept alive; `app` handles requests."""

    def __init__(
        self,
        settings: Settings,
        keys: AccessKeys,
        environ: Mapping[str, str],
        *,
        url: str | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        """`url` is where jobs reach this server; without it they get no keys to it."""
        credentials = JobCredentials(keys, settings.layout)
        job_environment = None if url is None else partial(credentials.environment, url=url)
        self.jobs = jobs or Jobs(
            settings, environ, job_environment=job_environment, buckets_url=url or ""
        )
        self._quotas = Quotas(self.jobs, keys.quotas)
        limit_of = keys.limits(settings.jobs_per_key)
        sessions = Sessions(keys, credentials)
        pools = ThreadPools()
        training = sagemaker(self.jobs, pools, self._quotas.check, limit_of)
        services: dict[str, Service] = {
            "sagemaker": training,
            "logs": logs(self.jobs, pools),
            **_cloudwatch(self.jobs, pools),
            "sts": Sts(sessions),
            "iam": Iam(),
            "s3": _s3(settings, environ),
        }
        self._upkeep = Upkeep(self.jobs)
        self._bucket_cleanup = BucketCleanup(settings.layout.buckets, settings.upload_age_seconds)
        self._garbage_collector = GarbageCollector(self.jobs, Keep.parse(settings.keep))
        self._scheduler = self.jobs.scheduler(limit_of)
        admission = Admission(Limits.of(settings))
        telemetry = Telemetry(self.jobs, self._upkeep, admission, pools)
        health = Health(checks(self.jobs, self._upkeep), lambda: self.app.is_draining)
        create = training.operations["CreateTrainingJob"].run
        self._page = Page(
            self.jobs,
            PageAccess(keys, self.jobs, create),
            sessions=_page_sessions(settings),
            path_prefix=settings.path_prefix,
            is_login_always=settings.page_login == "always",
            is_ending=lambda: self.app.is_draining,
        )
        self.app = App(
            services,
            credentials,
            make_pages(health, telemetry, keys, self._page),
            sessions=sessions,
            admission=admission,
            watch=telemetry.count,
        )
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self.jobs.index_kept_open())
        self._upkeep.start()
        self._bucket_cleanup.start()
        self._garbage_collector.start()
        self._quotas.start()
        self._open.enter_context(self._scheduler)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._open:
            self._page.close()
            self._quotas.close(timeout=_CLOSE_SECONDS)
            self._garbage_collector.close(timeout=_CLOSE_SECONDS)
            self._bucket_cleanup.close(timeout=_CLOSE_SECONDS)
            self._upkeep.close(timeout=_CLOSE_SECONDS)


def _page_sessions(settings: Settings) -> PageSessions:
    path = settings.layout.server.page_sessions
    return PageSessions(path, time.time, idle_seconds=settings.page_idle_seconds)


def _s3(settings: Settings, environ: Mapping[str, str]) -> Service:
    """`s3://` is the same to the server, to its clients and in its jobs."""
    is_elsewhere = settings.storage.startswith("s3://")
    access = store_access(environ) if is_elsewhere else s3_access(environ)
    return S3(settings.layout.buckets) if access is None else S3Relay(access, environ)


def _cloudwatch(jobs: Jobs, pools: ThreadPools) -> dict[str, Service]:
    operations = cloudwatch.operations(jobs)
    service = FormLikeJsonService("cloudwatch", operations, cloudwatch.service_error, pools)
    return {
        "monitoring": service,
        "monitoring-form": FormService(cloudwatch.XML_NAMESPACE, service),
    }
