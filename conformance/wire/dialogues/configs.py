"""Settings and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire.good_requests import D
from conformance.wire.state import PLAIN

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


TLS_AND_SASL = [
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.login.refresh.window.jitter",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.keystore.location",
    "ssl.truststore.password",
]


def configs(talk: Talk, version: int) -> None:
    """Operations set, delete, append and subtract, on each kind of resource, right and wrong."""
    api = D.incremental_alter_configs
    topic, group = talk.create_topic(talk.fresh("topic")), talk.fresh("group")

    def alter(label: str, kind: int, name: str, *changes: tuple[str, int, str | None], validate: bool = False) -> None:
        configs = [api.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
        resource = api.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = api.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate)
        talk.say(request, version, label)

    alter("set", 2, topic, ("retention.ms", 0, "5000"))
    alter("try", 2, topic, ("retention.ms", 0, "6000"), validate=True)
    alter("append", 2, topic, ("cleanup.policy", 2, "compact"))
    alter("append what is there", 2, topic, ("cleanup.policy", 2, "compact"))
    alter("subtract", 2, topic, ("cleanup.policy", 3, "delete"))
    alter("append to what is no list", 2, topic, ("retention.ms", 2, "1"))
    alter("delete", 2, topic, ("retention.ms", 1, None))
    alter("delete what is not set", 2, topic, ("segment.ms", 1, None))
    alter("set null", 2, topic, ("segment.ms", 0, None))
    alter("an unknown operation", 2, topic, ("segment.ms", 9, "1"))
    alter("an unknown config", 2, topic, ("no.such", 0, "1"))
    alter("delete an unknown config", 2, topic, ("no.such", 1, None))
    alter("a bad value", 2, topic, ("retention.ms", 0, "soon"))
    alter("a bad value among good ones", 2, topic, ("segment.ms", 0, "70000"), ("retention.ms", 0, "soon"))
    alter("the same twice", 2, topic, ("segment.ms", 0, "70000"), ("segment.ms", 0, "80000"))
    alter("an absent topic", 2, "w-absent", ("segment.ms", 0, "70000"))
    alter("an illegal topic", 2, "a/b", ("segment.ms", 0, "70000"))
    alter("no topic", 2, "", ("segment.ms", 0, "70000"))
    alter("a broker", 4, "1", ("log.cleaner.threads", 0, "2"))
    alter("a broker's fixed config", 4, "1", ("node.id", 0, "2"))
    alter("all brokers", 4, "", ("log.retention.ms", 0, "604800001"))
    alter("all brokers, back", 4, "", ("log.retention.ms", 1, None))
    alter("a broker, back", 4, "1", ("log.cleaner.threads", 1, None))
    alter("another broker", 4, "2", ("log.cleaner.threads", 0, "2"))
    alter("a broker that is no number", 4, "one", ("log.cleaner.threads", 0, "2"))
    alter("a group", 32, group, ("consumer.session.timeout.ms", 0, "50000"))
    alter("a group's bad value", 32, group, ("consumer.session.timeout.ms", 0, "1"))
    alter("an unknown kind", 3, "x", ("a", 0, "1"))
    seen = D.describe_configs
    talk.wait_until(lambda: _group_session_ms(talk, group) == "50000", "the group's setting is told")
    for label, kind, name in (("the topic", 2, topic), ("the group", 32, group)):
        resource = seen.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = seen.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
        talk.say(request, 4, f"describe {label}")


def client_metrics(talk: Talk, version: int) -> None:
    """Subscriptions to metrics of clients (KIP-714): made, changed, told, listed and deleted."""
    api, asked, listed = D.incremental_alter_configs, D.describe_configs, D.list_config_resources
    name = talk.fresh("subscription")

    def alter(label: str, *changes: tuple[str, int, str | None], of: str = name, validate: bool = False) -> None:
        configs = [api.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
        resource = api.AlterConfigsResource(resource_type=16, resource_name=of, configs=configs)
        talk.say(api.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate), version, label)

    def described() -> Any:
        resource = asked.DescribeConfigsResource(resource_type=16, resource_name=name, configuration_keys=None)
        return asked.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)

    def await_interval(value: str) -> None:
        """Kafka's broker hears of settings behind the answers."""
        talk.wait_until(lambda: interval_ms() == value, f"the interval is {value}")

    def interval_ms() -> str | None:
        told = talk.ask(described(), 4).results[0].configs
        value: str | None = next(each.value for each in told if each.name == "interval.ms")
        return value

    def listing(label: str) -> None:
        talk.say(listed.ListConfigResourcesRequest(), 0, f"{label}, listed")
        talk.say(listed.ListConfigResourcesRequest(resource_types=[16]), 1, f"{label}, listed by type")
        talk.say(described(), 4, f"{label}, described")

    alter("try", ("interval.ms", 0, "1000"), validate=True)
    alter(
        "set", ("match", 0, "client_id=a.*, client_source_port=9.*"), ("metrics", 0, "*"), ("interval.ms", 0, " 1000 ")
    )
    await_interval("1000")
    listing("when it is set")
    for interval in ("99", "100", "3600000", "3600001", "-5", "soon", "99999999999", ""):
        alter(f"every {interval or 'nothing'}", ("interval.ms", 0, interval), validate=True)
    for match in (
        "",
        "client_id",
        "host=a",
        "client_id=[",
        "client_id=a=b",
        "client_id=",
        "=b",
        "client_id=a,,client_id=b",
    ):
        alter(f"match {match or 'nothing'}", ("match", 0, match), validate=True)
    for metrics in ("", "a b", "a,a", "a,"):
        alter(f"metrics {metrics or 'nothing'}", ("metrics", 0, metrics), validate=True)
    alter("append", ("metrics", 2, "more"))
    alter("subtract", ("match", 3, "client_id=a.*"))
    alter("an unknown config", ("no.such", 0, "x"))
    alter("delete an unknown config", ("no.such", 1, None))
    alter("an unknown config and a bad one", ("interval.ms", 0, "soon"), ("no.such", 0, "x"))
    alter("set null", ("interval.ms", 0, None))
    alter("no name", ("interval.ms", 0, "1000"), of="")
    alter("delete one", ("interval.ms", 1, None))
    await_interval("300000")
    listing("when one is deleted")
    alter("set again", ("interval.ms", 0, "2000"))
    await_interval("2000")
    alter("delete all", ("interval.ms", 1, None), ("match", 1, None), ("metrics", 1, None))
    await_interval("300000")
    listing("when all are deleted")


def _group_session_ms(talk: Talk, group: str) -> str | None:
    """Kafka's broker hears of settings behind the answers, in their order; this one is the last."""
    resource = D.describe_configs.DescribeConfigsResource(
        resource_type=32, resource_name=group, configuration_keys=["consumer.session.timeout.ms"]
    )
    (result,) = talk.ask(D.describe_configs.DescribeConfigsRequest(resources=[resource]), 4).results
    value: str | None = result.configs[0].value
    return value


def quotas(talk: Talk, version: int) -> None:
    api, asked = D.alter_client_quotas, D.describe_client_quotas
    name = talk.fresh("client")

    def alter(label: str, entity: dict[str, str | None], key: str, value: float = 1e9, **options: bool) -> None:
        parts = [api.EntityData(entity_type=kind, entity_name=of) for kind, of in entity.items()]
        operation = api.OpData(key=key, value=value, remove=options.get("remove", False))
        entries = [api.RequestEntryData(entity=parts, ops=[operation])]
        request = api.AlterClientQuotasRequest(entries=entries, validate_only=options.get("validate", False))
        talk.say(request, version, label)

    def describe(label: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        parts = [asked.ComponentData(entity_type=kind, match_type=how, match=of) for kind, how, of in components]
        talk.say(asked.DescribeClientQuotasRequest(components=parts, strict=strict), version, label)

    def is_set(client: str) -> bool:
        component = asked.ComponentData(entity_type="client-id", match_type=0, match=client)
        request = asked.DescribeClientQuotasRequest(components=[component], strict=True)
        return bool(talk.ask(request, version).entries)

    alter("try", {"client-id": name}, "producer_byte_rate", validate=True)
    alter("set", {"client-id": name}, "producer_byte_rate")
    alter("set for a user and a client", {"user": "w-user", "client-id": name}, "consumer_byte_rate")
    alter("set a share of time", {"user": "w-user"}, "request_percentage", 50.0)
    alter("an unknown key", {"client-id": name}, "no_such_rate")
    alter("an unknown entity", {"no-such": name}, "producer_byte_rate")
    alter("no entity", {}, "producer_byte_rate")
    alter("zero", {"client-id": name}, "producer_byte_rate", 0.0)
    alter("a fraction", {"client-id": name}, "producer_byte_rate", 1.5)
    alter("an address", {"ip": "127.9.9.9"}, "connection_creation_rate", 1000.0)
    alter("a bad address", {"ip": "nowhere..x"}, "connection_creation_rate", 1000.0)
    alter("an address and a user", {"ip": "127.9.9.9", "user": "w-user"}, "connection_creation_rate", 1000.0)
    alter("the last to be set", {"client-id": f"{name}-last"}, "producer_byte_rate")
    # Kafka's broker hears of quotas behind the answers, in their order.
    talk.wait_until(lambda: is_set(f"{name}-last"), "the quotas are told")
    describe("by client", ("client-id", 0, name))
    describe("by client, strictly", ("client-id", 0, name), strict=True)
    describe("any user", ("user", 2, None))
    describe("the default user", ("user", 1, None))
    describe("addresses", ("ip", 2, None))
    describe("an unknown kind", ("no-such", 2, None))
    describe("an unknown match", ("user", 7, None))
    describe("a match without name", ("user", 0, None))
    describe("the same kind twice", ("user", 2, None), ("user", 2, None))
    describe("all")
    alter("remove", {"client-id": name}, "producer_byte_rate", remove=True)
    alter("remove what is not set", {"client-id": name}, "producer_byte_rate", remove=True)
    talk.wait_until(lambda: not is_set(name), "the quota is gone")
    describe("after removal", ("client-id", 0, name), strict=True)


def describe_configs(talk: Talk, version: int) -> None:
    api = D.describe_configs
    for label, kind, name, keys in (
        ("a topic", 2, PLAIN, None),
        ("one config", 2, PLAIN, ["retention.ms"]),
        ("no config", 2, PLAIN, []),
        ("an unknown config", 2, PLAIN, ["no.such"]),
        ("an absent topic", 2, "w-absent", None),
        ("an illegal topic", 2, "a/b", None),
        ("an internal topic", 2, "__consumer_offsets", None),
        ("some of a broker", 4, "1", ["log.retention.ms", "compression.type", "log.segment.bytes", "ssl.key.password"]),
        ("TLS and SASL of a broker", 4, "1", TLS_AND_SASL),
        ("another broker", 4, "7", None),
        ("a broker that is no number", 4, "x", None),
        ("all brokers", 4, "", ["log.retention.ms"]),
        ("a group", 32, "w-nobody", None),
        ("no group", 32, "", None),
        ("client metrics", 16, "w-subscription", None),
        ("no client metrics", 16, "", None),
        ("an unknown kind", 77, "x", None),
        ("a logger of another broker", 8, "7", None),
    ):
        resource = api.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for synonyms in (False, True):
            request = api.DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)
            talk.say(request, version, f"{label}{' with synonyms' if synonyms else ''}")
