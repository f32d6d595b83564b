// kafkajs behind lines of JSON; the operations are those of ../java/Agent.java.

const { Kafka, logLevel, CompressionTypes, ConfigResourceTypes } = require("kafkajs");
const readline = require("readline");

const TIMEOUT_MS = 30000;
const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING, retry: { retries: 8 } });
const admin = kafka.admin();
const handles = new Map();
let opened = 0;

const bytes = (text) => (text === null ? null : Buffer.from(text, "latin1"));
const text = (data) => (data === null || data === undefined ? null : Buffer.from(data).toString("latin1"));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function keep(handle) {
  opened += 1;
  handles.set(opened, handle);
  return opened;
}

// kafkajs pushes records; the scenario pulls them. A record is committed only when the scenario says so.
async function openConsumer({ topic, group, isolation }) {
  const consumer = kafka.consumer({ groupId: group, readUncommitted: isolation === "read_uncommitted", heartbeatInterval: 500 });
  const handle = { consumer, topic, queue: [], polled: new Map(), assigned: 0 };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    handle.assigned = (payload.memberAssignment[topic] || []).length;
  });
  consumer.on(consumer.events.REBALANCING, () => {
    handle.assigned = 0;
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      handle.queue.push({ partition, offset: Number(message.offset), value: text(message.value) });
    },
  });
  return keep(handle);
}

async function poll({ handle, seconds }) {
  const consumer = handles.get(handle);
  const deadline = Date.now() + seconds * 1000;
  while (consumer.queue.length === 0 && Date.now() < deadline) await sleep(10);
  const record = consumer.queue.shift();
  if (record === undefined) return [];
  consumer.polled.set(record.partition, record.offset + 1);
  return [record];
}

async function commitOffsets({ handle }) {
  const { consumer, topic, polled } = handles.get(handle);
  await consumer.commitOffsets([...polled].map(([partition, offset]) => ({ topic, partition, offset: String(offset) })));
  return null;
}

async function committed({ handle, topic, partition }) {
  const { group } = handles.get(handle);
  const found = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  const offset = Number(found[0].partitions.find((item) => item.partition === partition).offset);
  return offset < 0 ? null : offset;
}

async function openProducer({ transactional_id, timeout_ms }) {
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    transactionalId: transactional_id === null ? undefined : transactional_id,
    transactionTimeout: timeout_ms,
  });
  if (transactional_id === null) await producer.connect();
  return keep({ producer, transaction: null });
}

async function send({ handle, topic, value }) {
  const { producer, transaction } = handles.get(handle);
  const messages = [{ partition: 0, value: bytes(value) }];
  const [sent] = await (transaction || producer).send({ topic, messages, acks: -1 });
  return { offset: Number(sent.baseOffset) };
}

async function produce({ topic, records, codec, acks }) {
  const compression = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }[codec];
  if (compression === undefined) throw new Error("KafkaJSNotImplemented");
  const producer = kafka.producer({ idempotent: acks === "all", maxInFlightRequests: 1 });
  await producer.connect();
  const sent = [];
  try {
    for (const record of records) {
      const message = {
        partition: 0,
        key: bytes(record.key),
        value: bytes(record.value),
        timestamp: record.timestamp_ms === null ? undefined : String(record.timestamp_ms),
        headers: Object.fromEntries(record.headers.map(([name, value]) => [name, bytes(value)])),
      };
      try {
        const told = await producer.send({ topic, messages: [message], compression, acks: acks === "all" ? -1 : Number(acks) });
        sent.push(told.length ? { partition: told[0].partition, offset: Number(told[0].baseOffset) } : null);
      } catch (error) {
        sent.push({ error: error.type || error.name });
      }
    }
  } finally {
    await producer.disconnect();
  }
  return sent;
}

async function consume({ topic, count, fetch_size }) {
  const limits = fetch_size === null ? {} : { maxBytes: fetch_size, maxBytesPerPartition: fetch_size };
  const groupId = `read-${topic}-${process.pid}-${opened}`;
  const consumer = kafka.consumer({ groupId, readUncommitted: true, ...limits });
  opened += 1;
  const seen = [];
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      if (partition === 0 && seen.length < count) {
        seen.push({
          offset: Number(message.offset),
          timestamp: message.timestamp,
          key: text(message.key),
          value: text(message.value),
          headers: Object.entries(message.headers || {}).map(([name, value]) => [name, text(value)]),
        });
      }
    },
  });
  const deadline = Date.now() + TIMEOUT_MS;
  while (seen.length < count && Date.now() < deadline) await sleep(20);
  await consumer.disconnect();
  return seen;
}

const operations = {
  async create_topic({ name, partitions, replication_factor, configs, validate_only }) {
    const configEntries = Object.entries(configs).map(([key, value]) => ({ name: key, value }));
    const topic = { topic: name, numPartitions: partitions, replicationFactor: replication_factor, configEntries };
    const created = await admin.createTopics({ topics: [topic], validateOnly: validate_only, waitForLeaders: false });
    if (!created) throw Object.assign(new Error(), { type: "TOPIC_ALREADY_EXISTS" });
    return null;
  },
  async delete_topic({ name }) {
    await admin.deleteTopics({ topics: [name] });
    return null;
  },
  async create_partitions({ name, total }) {
    await admin.createPartitions({ topicPartitions: [{ topic: name, count: total }] });
    return null;
  },
  async describe_topic({ name }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [name] });
    return topics[0].partitions
      .map((item) => ({ partition: item.partitionId, replicas: item.replicas.length, isr: item.isr.length }))
      .sort((left, right) => left.partition - right.partition);
  },
  async describe_configs({ topic }) {
    const found = await admin.describeConfigs({
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
      includeSynonyms: true,
    });
    return Object.fromEntries(found.resources[0].configEntries.map((entry) => [entry.configName, entry]));
  },
  async alter_configs({ topic, changes }) {
    const configEntries = Object.entries(changes)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => ({ name, value }));
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }],
    });
    return null;
  },
  async list_offset({ topic, partition, spec }) {
    if (spec === "earliest" || spec === "latest") {
      const found = await admin.fetchTopicOffsets(topic);
      const item = found.find((each) => each.partition === partition);
      return Number(spec === "earliest" ? item.low : item.high);
    }
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, Number(spec));
    return Number(found.find((each) => each.partition === partition).offset);
  },
  produce,
  consume,
  async open_consumer(request) {
    const number = await openConsumer(request);
    handles.get(number).group = request.group;
    return number;
  },
  open_producer: openProducer,
  poll,
  async assigned({ handle }) {
    return handles.get(handle).assigned;
  },
  commit_offsets: commitOffsets,
  committed,
  // kafkajs gets its producer id when it connects.
  async init({ handle }) {
    await handles.get(handle).producer.connect();
    return null;
  },
  async begin({ handle }) {
    const producer = handles.get(handle);
    producer.transaction = await producer.producer.transaction();
    return null;
  },
  send,
  async send_offset({ handle, consumer, topic, offset }) {
    await handles.get(handle).transaction.sendOffsets({
      consumerGroupId: handles.get(consumer).group,
      topics: [{ topic, partitions: [{ partition: 0, offset: String(offset) }] }],
    });
    return null;
  },
  async commit({ handle }) {
    await handles.get(handle).transaction.commit();
    return null;
  },
  async abort({ handle }) {
    await handles.get(handle).transaction.abort();
    return null;
  },
  async close({ handle }) {
    const { consumer, producer } = handles.get(handle);
    handles.delete(handle);
    await (consumer || producer).disconnect();
    return null;
  },
};

async function main() {
  await admin.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer;
    try {
      answer = { ok: await operations[request.op](request) };
    } catch (error) {
      const cause = (error.errors && error.errors[0]) || error;
      answer = { error: cause.type || cause.name };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
  process.exit(0);
}

main();
