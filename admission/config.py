"""The configuration file: one model, strict, with errors that say where and what was expected."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from admission.quota.check import LimitedResource
from admission.quota.scopes import ALL_SCOPES, SCOPES_WITH_VALUES, Scope
from admission.readable import first_error
from admission.standalone.documents import read_mapping
from admission.standalone.errors import PolicyError

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 1.0
"""Seconds between looks at the configuration file."""
API_SERVER_DOCUMENTS = {
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
}
"""The documents in which an API server is told of limited resources: they are read as they are."""


class ConfigError(Exception):
    """A configuration that cannot be used: one line that names file, field and what was expected."""


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True)


class MatchScope(_Model):
    """A scope that may be used only where a quota covers it."""

    scope_name: Literal[tuple(sorted(ALL_SCOPES))]  # type: ignore[valid-type]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = "Exists"
    values: list[str] = []

    @model_validator(mode="after")
    def _is_sound(self) -> MatchScope:
        if self.scope_name not in SCOPES_WITH_VALUES and self.operator != "Exists":
            raise ValueError(f"expected operator Exists for scope {self.scope_name}")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"expected no values for operator {self.operator}")
        problem = self.scope().problem()
        if problem:
            raise ValueError(problem)
        return self

    def scope(self) -> Scope:
        """The scope to match with."""
        return Scope(self.scope_name, self.operator, tuple(self.values))


class Limited(_Model):
    """A resource that may be used only where a quota covers it."""

    api_group: str = ""
    resource: Annotated[str, Field(min_length=1)]
    match_contains: list[str] = []
    match_scopes: list[MatchScope] = []

    def limited_resource(self) -> LimitedResource:
        """What the check takes."""
        kind = f"{self.resource}.{self.api_group}" if self.api_group else self.resource
        return LimitedResource(kind, tuple(self.match_contains), tuple(scope.scope() for scope in self.match_scopes))


class QuotaConfig(_Model):
    """How quotas are judged."""

    limited_resources: list[Limited] = []
    accounting: Literal["webhook", "apiserver", "auto"] = "auto"
    """In a cluster: who keeps the count. `auto`: the API server, where its own plugin is on, else we."""
    warn_at: Annotated[float, Field(gt=0, le=1, strict=False)] = 0.9
    """From which share of a quota on those who use it are warned."""


class LedgerConfig(_Model):
    """How the count is kept on the API server."""

    expire_after_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """After how long a reservation whose object was not seen is looked into. API servers end requests after 60 s."""
    accounts: list[str] = []
    """User names that may change the ledger, beside our own and the service accounts of our namespace."""


class ControllerConfig(_Model):
    """How the controller works."""

    namespace: str = ""
    """Where its Lease and its probe are; by default the namespace of its service account or of the Service."""
    lease_seconds: Annotated[int, Field(ge=2, le=600)] = 15
    resync_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """How often everything is counted anew, whatever was heard of it."""


class WebhooksConfig(_Model):
    """What the controller registers."""

    mutating_failure_policy: Literal["Fail", "Ignore"] = "Ignore"
    validating_failure_policy: Literal["Fail", "Ignore"] = "Fail"
    timeout_seconds: Annotated[int, Field(ge=1, le=30)] = 3
    exempt_namespaces: list[str] = ["kube-system", "kube-node-lease", "kube-public"]
    """Namespaces whose objects are not sent to us. Our own is always one of them."""


class ServerConfig(_Model):
    """How the server serves."""

    threads: Annotated[int, Field(ge=1, le=64)] = 4
    """Threads that serve the webhook port."""
    keepalive_seconds: Annotated[int, Field(ge=1, le=3600)] = 120
    """How long an idle connection stays open. API servers keep theirs for 90 s."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=64 * 2**20)] = 3 * 2**20
    """Largest review taken."""
    drain_seconds: Annotated[float, Field(ge=0, le=20, strict=False)] = 3.0
    """In a cluster: how long calls are still taken after SIGTERM, while the server says that it is not ready."""


class Config(_Model):
    """The whole configuration; every field has a default."""

    quota: QuotaConfig = QuotaConfig()
    server: ServerConfig = ServerConfig()
    ledger: LedgerConfig = LedgerConfig()
    controller: ControllerConfig = ControllerConfig()
    webhooks: WebhooksConfig = WebhooksConfig()

    def limited(self) -> tuple[LimitedResource, ...]:
        """The limited resources."""
        return tuple(entry.limited_resource() for entry in self.quota.limited_resources)


def load_config(path: Path | None) -> Config:
    """The configuration of a YAML file, the defaults where there is none; raises ConfigError."""
    if path is None:
        return Config()
    try:
        document = read_mapping(path)
    except PolicyError as error:
        raise ConfigError(str(error)) from None
    ours = _ours(document, path)
    try:
        return Config.model_validate(ours)
    except ValidationError as error:
        problem = first_error(error)
        if ours is not document:  # the path is to be the one in the file
            problem = problem.removeprefix("quota.") if problem.startswith("quota.limitedResources") else problem
        raise ConfigError(f"{path}: {problem}") from None


def _ours(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The document in our form: an API server's own is taken for the part of it that it is."""
    if "kind" not in document and "apiVersion" not in document:
        return _with_limited_under_quota(document)
    version, kind = document.get("apiVersion"), document.get("kind")
    if (version, kind) not in API_SERVER_DOCUMENTS:
        expected = "apiserver.config.k8s.io/v1, ResourceQuotaConfiguration"
        raise ConfigError(f"{path}: apiVersion, kind: expected {expected} or none at all, got {version}, {kind}")
    return {"quota": {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}}


def _with_limited_under_quota(document: dict[str, Any]) -> dict[str, Any]:
    """`limitedResources` may also stand at the top, as it does in the API server's document."""
    quota = document.get("quota", {})
    if "limitedResources" not in document or not isinstance(quota, dict) or "limitedResources" in quota:
        return document
    rest = {key: value for key, value in document.items() if key != "limitedResources"}
    return {**rest, "quota": {**quota, "limitedResources": document["limitedResources"]}}


def changes_of(path: Path | None, stopping: threading.Event) -> Iterator[Config]:
    """The configuration each time that its file has changed; one that is not in order is logged and passed over."""
    known = _fingerprint(path)
    while path is not None and not stopping.wait(LOOK_EVERY):
        now = _fingerprint(path)
        if now == known or now is None:
            continue
        known = now
        try:
            yield load_config(path)
        except ConfigError as error:
            log.error("configuration not taken, the last one stays in force: %s", error)  # noqa: TRY400


def _fingerprint(path: Path | None) -> tuple[int, int, int] | None:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found else None
