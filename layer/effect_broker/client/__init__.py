"""Talks to a broker over HTTP: the same words as in process, and nothing made up.

`EffectBrokerClient` is async; `SyncEffectBrokerClient` builds the same requests and waits
for them. Both repeat a request by themselves only where the repeat is safe by
construction: `calls.REPEATS` says which, and why. A lost answer is `Unreachable`, which
never means that nothing was done.
"""

from effect_broker.client.answers import Effect as Effect
from effect_broker.client.answers import Event as Event
from effect_broker.client.answers import ForkedHistory as ForkedHistory
from effect_broker.client.answers import History as History
from effect_broker.client.answers import InspectedEffect as InspectedEffect
from effect_broker.client.answers import Receipt as Receipt
from effect_broker.client.answers import Submission as Submission
from effect_broker.client.answers import Tool as Tool
from effect_broker.client.asynchronous import EffectBrokerClient as EffectBrokerClient
from effect_broker.client.errors import BrokerDefect as BrokerDefect
from effect_broker.client.errors import Unreachable as Unreachable
from effect_broker.client.synchronous import (
    SyncEffectBrokerClient as SyncEffectBrokerClient,
)
