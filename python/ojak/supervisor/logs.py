# SPDX-License-Identifier: Apache-2.0
"""The log lines of a process that may load libraries: every event of `logging`, made into one line at the edge."""

import logging
import sys

import orjson
import structlog


def configure_logs(log_level: str, log_format: str, *, worker: int | None = None) -> None:
    """Send what `logging` gets to standard error, one event a line.

    Args:
        log_level: From which level on.
        log_format: `text` or `json`.
        worker: Put on each line, where the process is a worker.
    """

    def named(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if worker is not None:
            event.setdefault("worker", worker)
        return event

    shape: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if log_format == "json":
        shape += [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=lambda event, **_: orjson.dumps(event, default=str).decode()),
        ]
    else:
        shape.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                named,
            ],
            processors=shape,
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logger = logging.getLogger("ojak")
    logger.handlers.clear()
    logger.propagate = True
    logger.setLevel(log_level.upper())
