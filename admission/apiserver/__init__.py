"""What an API server does around the webhook calls, for trying the server without a cluster."""

from admission.apiserver.review import BadAnswer
from admission.apiserver.stages import ApiServer, CallFailed, Outcome, Sources, Webhooks
from admission.apiserver.statuses import Cause, Status

__all__ = [
    "ApiServer",
    "BadAnswer",
    "CallFailed",
    "Cause",
    "Outcome",
    "Sources",
    "Status",
    "Webhooks",
]
