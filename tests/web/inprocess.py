"""The webhook application without a server around it: for thousands of calls."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from admission.config import Config
from admission.pipeline import Pipeline
from admission.standalone.store import StandaloneStore
from admission.standalone.world import Folder
from admission.web.app import webhook_app
from admission.web.metrics import Metrics
from tests.standalone.manifests import Json
from tests.web.answers import judged

VECTORS = Path(__file__).parent.parent / "vectors" / "data"


class Webhook:
    """Store, pipeline and application in this process; every answer is checked for its form."""

    def __init__(self, files: Mapping[str, str], folder: Path, config: Config | None = None) -> None:
        for name, text in files.items():
            (folder / name).write_text(text)
        self.config = config or Config()
        self.metrics = Metrics("test")
        found = Folder(folder)
        self.store = StandaloneStore(found.load(found.fingerprints()), limited=self.config.limited())
        pipeline = Pipeline(self.store, self.store, warn_at=self.config.quota.warn_at)
        self.app = webhook_app(pipeline, self.metrics, self.config.server.max_body_bytes)

    def post(self, path: str, body: bytes, **environ: Any) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of the answer."""
        path, _, query = path.partition("?")
        made = {
            "REQUEST_METHOD": "POST",
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "443",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            **environ,
        }
        answered: list[tuple[int, dict[str, str]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            answered.append((int(status.split(maxsplit=1)[0]), dict(headers)))

        payload = b"".join(self.app(made, start_response))  # type: ignore[arg-type]
        ((status, headers),) = answered
        return status, headers, payload

    def judge(self, path: str, body: bytes | Json, **environ: Any) -> Json | None:
        """The `response`, None where the call was turned away."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return judged(*self.post(path, data, **environ))

    def errors(self) -> float:
        """How many calls ended in an error of the server's own."""
        return sum(
            sample.value
            for metric in text_string_to_metric_families(self.metrics.exposition().decode())
            for sample in metric.samples
            if sample.name == "quota_admission_reviews_total" and sample.labels["outcome"] == "error"
        )


def vectors(*names: str, every: int = 1) -> list[Json]:
    """Recorded cases."""
    rows = []
    for name in names:
        with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt") as lines:
            rows += [json.loads(line) for index, line in enumerate(lines) if index % every == 0]
    return rows


def policies_of(rows: Iterable[Json]) -> dict[str, str]:
    """The policies of recorded cases, each in its namespace, as files."""
    classes = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "tpu"}, "spec": {}},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"extendedResourceName": "example.com/gpu"},
        },
    ]
    files = {"cluster.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": classes})}
    for row in rows:
        listed = {"apiVersion": "v1", "kind": "List", "items": [*row["limitRanges"], *row["resourceQuotas"]]}
        files[f"{row['review']['request']['namespace']}.json"] = json.dumps(listed)
    return files
