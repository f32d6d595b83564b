// Apache Kafka's Java client behind lines of JSON: a request on stdin, its answer on stdout.
//
// A request names an operation and its arguments: {"op": "send", "handle": 3, "topic": "t", "value": "v"}. The
// answer is {"ok": ...} or {"error": "TheExceptionsName"}. Consumers and producers are handles, numbered as they
// are opened. The file runs as it is (java Agent.java) and uses nothing that the client 2.8 does not have, apart
// from what it is told by its arguments.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Agent {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long TIMEOUT_SECONDS = 30;

    private final String bootstrap;
    private final Admin admin;
    private final Map<Integer, Object> handles = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Agent agent = new Agent(args[0]);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(agent.answer(JSON.readTree(line))));
        }
    }

    private Agent(String bootstrap) {
        this.bootstrap = bootstrap;
        Properties properties = common();
        // What no retry can mend, such as a partition that is not there, is reported only when this time is over.
        properties.put("default.api.timeout.ms", 15_000);
        properties.put("request.timeout.ms", 15_000);
        this.admin = Admin.create(properties);
    }

    private Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private Map<String, Object> answer(JsonNode request) {
        Map<String, Object> answer = new HashMap<>();
        try {
            answer.put("ok", perform(request));
        } catch (ExecutionException error) {
            answer.put("error", error.getCause().getClass().getSimpleName());
        } catch (Exception error) {
            answer.put("error", error.getClass().getSimpleName());
        }
        return answer;
    }

    private Object perform(JsonNode request) throws Exception {
        switch (request.get("op").asText()) {
            case "create_topic":
                return createTopic(request);
            case "delete_topic":
                return await(admin.deleteTopics(List.of(request.get("name").asText())).all());
            case "create_partitions":
                return await(admin.createPartitions(Map.of(request.get("name").asText(),
                        NewPartitions.increaseTo(request.get("total").asInt()))).all());
            case "describe_topic":
                return describeTopic(request.get("name").asText());
            case "describe_configs":
                return describeConfigs(request.get("topic").asText());
            case "alter_configs":
                return alterConfigs(request);
            case "list_offset":
                return listOffset(request);
            case "produce":
                return produce(request);
            case "consume":
                return consume(request);
            case "open_consumer":
                return openConsumer(request);
            case "open_producer":
                return openProducer(request);
            case "poll":
                return poll(consumer(request), request.get("seconds").asDouble());
            case "assigned":
                return consumer(request).assignment().size();
            case "commit_offsets":
                consumer(request).commitSync(Duration.ofSeconds(TIMEOUT_SECONDS));
                return null;
            case "committed":
                return committed(request);
            case "init":
                producer(request).initTransactions();
                return null;
            case "begin":
                producer(request).beginTransaction();
                return null;
            case "send":
                return send(request);
            case "send_offset":
                return sendOffset(request);
            case "commit":
                producer(request).commitTransaction();
                return null;
            case "abort":
                producer(request).abortTransaction();
                return null;
            case "close":
                return close(handles.remove(request.get("handle").asInt()));
            default:
                throw new IllegalArgumentException(request.get("op").asText());
        }
    }

    private static <T> T await(Future<T> future) throws Exception {
        return future.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    private Object createTopic(JsonNode request) throws Exception {
        NewTopic topic = new NewTopic(request.get("name").asText(), request.get("partitions").asInt(),
                (short) request.get("replication_factor").asInt());
        Map<String, String> configs = new HashMap<>();
        request.get("configs").fields().forEachRemaining(item -> configs.put(item.getKey(), item.getValue().asText()));
        topic.configs(configs);
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(request.get("validate_only").asBoolean());
        return await(admin.createTopics(List.of(topic), options).all());
    }

    private Object describeTopic(String name) throws Exception {
        TopicDescription topic = await(descriptions(admin.describeTopics(List.of(name))).get(name));
        List<Object> partitions = new ArrayList<>();
        for (TopicPartitionInfo partition : topic.partitions()) {
            partitions.add(Map.of("partition", partition.partition(), "replicas", partition.replicas().size(), "isr",
                    partition.isr().size()));
        }
        return partitions;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Future<TopicDescription>> descriptions(DescribeTopicsResult result) throws Exception {
        // Before 3.1 the method had another name, which 4.0 removed.
        boolean renamed = Arrays.stream(DescribeTopicsResult.class.getMethods())
                .anyMatch(method -> method.getName().equals("topicNameValues"));
        String name = renamed ? "topicNameValues" : "values";
        return (Map<String, Future<TopicDescription>>) DescribeTopicsResult.class.getMethod(name).invoke(result);
    }

    private Object describeConfigs(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true);
        Config config = await(admin.describeConfigs(List.of(resource), options).values().get(resource));
        Map<String, Object> seen = new TreeMap<>();
        for (ConfigEntry entry : config.entries()) {
            seen.put(entry.name(), entry.value() + " " + entry.source() + " " + entry.isReadOnly() + " " + entry.type()
                    + " " + entry.synonyms());
        }
        return seen;
    }

    private Object alterConfigs(JsonNode request) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, request.get("topic").asText());
        Collection<AlterConfigOp> changes = new ArrayList<>();
        request.get("changes").fields().forEachRemaining(item -> {
            boolean delete = item.getValue().isNull();
            ConfigEntry entry = new ConfigEntry(item.getKey(), delete ? "" : item.getValue().asText());
            changes.add(new AlterConfigOp(entry, delete ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET));
        });
        return await(admin.incrementalAlterConfigs(Map.of(resource, changes)).all());
    }

    private Object listOffset(JsonNode request) throws Exception {
        String spec = request.get("spec").asText();
        OffsetSpec wanted;
        if (spec.equals("earliest")) {
            wanted = OffsetSpec.earliest();
        } else if (spec.equals("latest")) {
            wanted = OffsetSpec.latest();
        } else if (Character.isDigit(spec.charAt(0))) {
            wanted = OffsetSpec.forTimestamp(Long.parseLong(spec));
        } else {
            // Since 3.0, thus by its name only.
            wanted = (OffsetSpec) OffsetSpec.class.getMethod("maxTimestamp").invoke(null);
        }
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        var found = await(admin.listOffsets(Map.of(partition, wanted)).partitionResult(partition));
        return Map.of("offset", found.offset(), "timestamp_ms", found.timestamp(), "leader_epoch",
                found.leaderEpoch().orElse(-1));
    }

    private Object produce(JsonNode request) throws Exception {
        Properties properties = common();
        properties.put("acks", request.get("acks").asText());
        properties.put("enable.idempotence", request.get("acks").asText().equals("all"));
        properties.put("compression.type", request.get("codec").asText());
        properties.put("max.request.size", request.get("size_max").asInt());
        properties.put("batch.size", 0);
        List<Object> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = makeProducer(properties)) {
            for (JsonNode record : request.get("records")) {
                ProducerRecord<byte[], byte[]> out = new ProducerRecord<>(request.get("topic").asText(), 0,
                        record.get("timestamp_ms").isNull() ? null : record.get("timestamp_ms").asLong(),
                        bytes(record.get("key")), bytes(record.get("value")));
                for (JsonNode header : record.get("headers")) {
                    out.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                try {
                    RecordMetadata told = await(producer.send(out));
                    sent.add(Map.of("partition", told.partition(), "offset", told.offset()));
                } catch (ExecutionException error) {
                    sent.add(Map.of("error", error.getCause().getClass().getSimpleName()));
                }
            }
        }
        return sent;
    }

    private Object consume(JsonNode request) {
        Properties properties = common();
        properties.put("enable.auto.commit", false);
        if (!request.get("fetch_size").isNull()) {
            properties.put("max.partition.fetch.bytes", request.get("fetch_size").asInt());
            properties.put("fetch.max.bytes", request.get("fetch_size").asInt());
        }
        List<Object> seen = new ArrayList<>();
        int count = request.get("count").asInt();
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
        try (KafkaConsumer<byte[], byte[]> consumer = makeConsumer(properties)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_SECONDS);
            while (seen.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    if (seen.size() < count) {
                        seen.add(shown(record));
                    }
                }
            }
        }
        return seen;
    }

    private static Object shown(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> seen = new HashMap<>();
        seen.put("offset", record.offset());
        seen.put("leader_epoch", record.leaderEpoch().orElse(-1));
        seen.put("timestamp", record.timestampType() + " " + record.timestamp());
        seen.put("key", text(record.key()));
        seen.put("value", text(record.value()));
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(new Object[] {header.key(), text(header.value())});
        }
        seen.put("headers", headers);
        return seen;
    }

    private int openConsumer(JsonNode request) {
        Properties properties = common();
        properties.put("group.id", request.get("group").asText());
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", false);
        properties.put("max.poll.records", 1);
        if (request.get("protocol").asText().equals("classic")) {
            properties.put("heartbeat.interval.ms", 500);
        }
        properties.put("isolation.level", request.get("isolation").asText());
        if (!request.get("protocol").asText().equals("classic")) {
            properties.put("group.protocol", request.get("protocol").asText());
        }
        if (!request.get("instance").isNull()) {
            properties.put("group.instance.id", request.get("instance").asText());
        }
        KafkaConsumer<byte[], byte[]> consumer = makeConsumer(properties);
        consumer.subscribe(List.of(request.get("topic").asText()));
        return keep(consumer);
    }

    private int openProducer(JsonNode request) {
        Properties properties = common();
        properties.put("enable.idempotence", true);
        properties.put("acks", "all");
        if (!request.get("transactional_id").isNull()) {
            properties.put("transactional.id", request.get("transactional_id").asText());
            properties.put("transaction.timeout.ms", request.get("timeout_ms").asInt());
        }
        return keep(makeProducer(properties));
    }

    private static KafkaProducer<byte[], byte[]> makeProducer(Properties properties) {
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> makeConsumer(Properties properties) {
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private int keep(Object handle) {
        int number = handles.size() + 1;
        while (handles.containsKey(number)) {
            number++;
        }
        handles.put(number, handle);
        return number;
    }

    @SuppressWarnings("unchecked")
    private KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        return (KafkaConsumer<byte[], byte[]>) handles.get(request.get("handle").asInt());
    }

    @SuppressWarnings("unchecked")
    private KafkaProducer<byte[], byte[]> producer(JsonNode request) {
        return (KafkaProducer<byte[], byte[]>) handles.get(request.get("handle").asInt());
    }

    private static Object poll(KafkaConsumer<byte[], byte[]> consumer, double seconds) {
        List<Object> seen = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis((long) (seconds * 1000)))) {
            seen.add(Map.of("partition", record.partition(), "offset", record.offset(), "value", text(record.value())));
        }
        return seen;
    }

    private Object committed(JsonNode request) {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        OffsetAndMetadata found = consumer(request).committed(Collections.singleton(partition)).get(partition);
        return found == null ? null : found.offset();
    }

    private Object send(JsonNode request) throws Exception {
        RecordMetadata told = await(producer(request).send(
                new ProducerRecord<>(request.get("topic").asText(), 0, null, bytes(request.get("value")))));
        return Map.of("offset", told.offset());
    }

    @SuppressWarnings("unchecked")
    private Object sendOffset(JsonNode request) {
        KafkaConsumer<byte[], byte[]> consumer =
                (KafkaConsumer<byte[], byte[]>) handles.get(request.get("consumer").asInt());
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
        producer(request).sendOffsetsToTransaction(
                Map.of(partition, new OffsetAndMetadata(request.get("offset").asLong())), consumer.groupMetadata());
        return null;
    }

    private static Object close(Object handle) {
        if (handle instanceof KafkaConsumer) {
            ((KafkaConsumer<?, ?>) handle).close();
        } else if (handle instanceof KafkaProducer) {
            ((KafkaProducer<?, ?>) handle).close(Duration.ofSeconds(2));
        }
        return null;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.ISO_8859_1);
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.ISO_8859_1);
    }
}
