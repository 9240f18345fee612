"""Log lines: JSON for machines, short texts for people at a terminal."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Final

import orjson

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, message, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def _shown(value: Any) -> str:
    """The value on one line; what could forge another, or colour the terminal, is escaped."""
    text = str(value)
    return text if text.isprintable() else orjson.dumps(text).decode()


class TextFormatter(logging.Formatter):
    """Time, level, message, then `key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = "".join(f" {key}={_shown(value)}" for key, value in _fields(record).items() if value != "")
        text = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.levelname:<7} "
        text += _shown(record.getMessage()) + fields
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def set_up(form: str, level: str) -> None:
    """Log to standard error; `form` is `json`, `text`, or `auto`: text at a terminal."""
    handler = logging.StreamHandler(sys.stderr)
    text = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
