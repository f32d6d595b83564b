"""A real broker for tests: `with Broker() as broker: connect(broker.bootstrap_servers)`.

`Broker()` runs in a thread of this process and is ready in well under a third of a second;
`Broker(subprocess=True)` is a process of its own that can be killed and restarted. Both listen on a port that the
system chose, keep their data in a temporary directory unless given one, and are what `oncelog serve` is. The
pytest plugin gives the fixtures `oncelog_broker` (one for each test) and `oncelog_session_broker`.
"""

from oncelog.testing.broker import Broker, BrokerFailed

__all__ = ["Broker", "BrokerFailed"]
