# SPDX-License-Identifier: Apache-2.0
"""Ojak: the delivery engine of ActivityPub servers.

`Deliverer` queues activities and sends them; everything else here is what it takes and gives. Names are loaded when
they are first used, so that the supervisor, which imports this package too, stays small.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ojak.breaker.admission import Admission, BreakerScope, Probe, Verdict
    from ojak.breaker.circuit import Circuit, CircuitState, Signal
    from ojak.breaker.rules import CircuitBreaker
    from ojak.breaker.store import BreakerResult, BreakerStore, MemoryBreakers
    from ojak.config import DelivererConfig
    from ojak.deliverer import Deliverer
    from ojak.errors import (
        ConfigError,
        DeliveryError,
        InputError,
        OjakError,
        QueueUnavailable,
        SigningError,
        StoreError,
        UnknownSender,
    )
    from ojak.http.deliver import deliver, deliver_with_headers
    from ojak.http.outbound import Outbound
    from ojak.model.activity import InvalidActivity
    from ojak.model.batch import Batch, BatchProgress, FailedDelivery
    from ojak.model.domains import BlockedDomains
    from ojak.model.explanation import DeliveryState, Explanation, GatewayState, WaitsFor
    from ojak.model.handler import HandledJob, Handler, JobRefused
    from ojak.model.hold import SenderPause
    from ojak.model.host import (
        ContentForm,
        HostBreaker,
        HostFilter,
        HostOverrides,
        HostRecord,
        HostSort,
        HostState,
        Pause,
        ProbeAnswer,
        UnknownHost,
    )
    from ojak.model.inbox import Inbox, InvalidInbox
    from ojak.model.job import Priority
    from ojak.model.key_fields import KeyFields
    from ojak.model.kind_job import JobInfo, JobOutcome, KindStatus, QueuedJob
    from ojak.model.outcome import (
        AttemptOutcome,
        DeliveryAttempt,
        DeliveryFailure,
        FailureReason,
        Sent,
        SentInbox,
        SentState,
        Settled,
        SettledOutcome,
    )
    from ojak.model.outgoing import Outgoing
    from ojak.model.portable import PortableInbox
    from ojak.model.queue_settings import QueueSettings
    from ojak.model.selection import Cancelled, Replayed
    from ojak.model.status import permanent_status
    from ojak.signing import (
        CachingSenderKeys,
        FolderSenderKeys,
        KeyRefused,
        PrivateKey,
        Scheme,
        SenderKeyring,
        SenderKeys,
        SigningKey,
    )
    from ojak.store.batches import UnknownBatch
    from ojak.store.bodies import ConflictingActivity
    from ojak.store.explain import UnknownActivity
    from ojak.store.fill import QueueFull
    from ojak.store.kind_list import UnknownJob
    from ojak.store.sender_keys import CollectionSenderKeys

__all__ = [
    "Admission",
    "AttemptOutcome",
    "Batch",
    "BatchProgress",
    "BlockedDomains",
    "BreakerResult",
    "BreakerScope",
    "BreakerStore",
    "CachingSenderKeys",
    "Cancelled",
    "Circuit",
    "CircuitBreaker",
    "CircuitState",
    "CollectionSenderKeys",
    "ConfigError",
    "ConflictingActivity",
    "ContentForm",
    "Deliverer",
    "DelivererConfig",
    "DeliveryAttempt",
    "DeliveryError",
    "DeliveryFailure",
    "DeliveryState",
    "Explanation",
    "FailedDelivery",
    "FailureReason",
    "FolderSenderKeys",
    "GatewayState",
    "HandledJob",
    "Handler",
    "HostBreaker",
    "HostFilter",
    "HostOverrides",
    "HostRecord",
    "HostSort",
    "HostState",
    "Inbox",
    "InputError",
    "InvalidActivity",
    "InvalidInbox",
    "JobInfo",
    "JobOutcome",
    "JobRefused",
    "KeyFields",
    "KeyRefused",
    "KindStatus",
    "MemoryBreakers",
    "OjakError",
    "Outbound",
    "Outgoing",
    "Pause",
    "PortableInbox",
    "Priority",
    "PrivateKey",
    "Probe",
    "ProbeAnswer",
    "QueueFull",
    "QueueSettings",
    "QueueUnavailable",
    "QueuedJob",
    "Replayed",
    "Scheme",
    "SenderKeyring",
    "SenderKeys",
    "SenderPause",
    "Sent",
    "SentInbox",
    "SentState",
    "Settled",
    "SettledOutcome",
    "Signal",
    "SigningError",
    "SigningKey",
    "StoreError",
    "UnknownActivity",
    "UnknownBatch",
    "UnknownHost",
    "UnknownJob",
    "UnknownSender",
    "Verdict",
    "WaitsFor",
    "deliver",
    "deliver_with_headers",
    "permanent_status",
]

_HOMES = {
    "ojak.breaker.admission": ("Admission", "BreakerScope", "Probe", "Verdict"),
    "ojak.breaker.circuit": ("Circuit", "CircuitState", "Signal"),
    "ojak.breaker.rules": ("CircuitBreaker",),
    "ojak.breaker.store": ("BreakerResult", "BreakerStore", "MemoryBreakers"),
    "ojak.config": ("DelivererConfig",),
    "ojak.deliverer": ("Deliverer",),
    "ojak.errors": (
        "ConfigError",
        "DeliveryError",
        "InputError",
        "OjakError",
        "QueueUnavailable",
        "SigningError",
        "StoreError",
        "UnknownSender",
    ),
    "ojak.http.deliver": ("deliver", "deliver_with_headers"),
    "ojak.http.outbound": ("Outbound",),
    "ojak.model.activity": ("InvalidActivity",),
    "ojak.model.batch": ("Batch", "BatchProgress", "FailedDelivery"),
    "ojak.model.explanation": ("DeliveryState", "Explanation", "GatewayState", "WaitsFor"),
    "ojak.model.outgoing": ("Outgoing",),
    "ojak.model.queue_settings": ("QueueSettings",),
    "ojak.model.selection": ("Cancelled", "Replayed"),
    "ojak.store.batches": ("UnknownBatch",),
    "ojak.store.explain": ("UnknownActivity",),
    "ojak.store.fill": ("QueueFull",),
    "ojak.store.kind_list": ("UnknownJob",),
    "ojak.model.handler": ("HandledJob", "Handler", "JobRefused"),
    "ojak.model.kind_job": ("JobInfo", "JobOutcome", "KindStatus", "QueuedJob"),
    "ojak.store.sender_keys": ("CollectionSenderKeys",),
    "ojak.model.domains": ("BlockedDomains",),
    "ojak.model.hold": ("SenderPause",),
    "ojak.model.host": (
        "ContentForm",
        "HostBreaker",
        "HostFilter",
        "HostOverrides",
        "HostRecord",
        "HostSort",
        "HostState",
        "Pause",
        "ProbeAnswer",
        "UnknownHost",
    ),
    "ojak.model.inbox": ("Inbox", "InvalidInbox"),
    "ojak.model.job": ("Priority",),
    "ojak.model.key_fields": ("KeyFields",),
    "ojak.model.outcome": (
        "AttemptOutcome",
        "DeliveryAttempt",
        "DeliveryFailure",
        "FailureReason",
        "Sent",
        "SentInbox",
        "SentState",
        "Settled",
        "SettledOutcome",
    ),
    "ojak.model.portable": ("PortableInbox",),
    "ojak.model.status": ("permanent_status",),
    "ojak.signing": (
        "CachingSenderKeys",
        "FolderSenderKeys",
        "KeyRefused",
        "PrivateKey",
        "Scheme",
        "SenderKeyring",
        "SenderKeys",
        "SigningKey",
    ),
    "ojak.store.bodies": ("ConflictingActivity",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
