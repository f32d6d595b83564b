import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What copier.py is, with Kafka's own client: ADDRESS SOURCE TARGET NAME. It runs until it is killed. */
public class Copier {
    private static final String GROUP = "copiers";
    private static final int BATCH_MAX = 7;

    public static void main(String[] args) {
        String address = args[0];
        String source = args[1];
        String target = args[2];
        KafkaProducer<String, String> producer = producer(address, args[3]);
        KafkaConsumer<String, String> consumer = consumer(address, args[3]);
        producer.initTransactions();
        consumer.subscribe(List.of(source));
        while (true) {
            ConsumerRecords<String, String> polled = consumer.poll(Duration.ofMillis(200));
            if (polled.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> record : polled) {
                producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
        }
    }

    private static KafkaProducer<String, String> producer(String address, String name) {
        Properties config = new Properties();
        config.put("bootstrap.servers", address);
        config.put("transactional.id", name);
        config.put("reconnect.backoff.max.ms", "200");
        config.put("linger.ms", "0");
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(String address, String name) {
        Properties config = new Properties();
        config.put("bootstrap.servers", address);
        config.put("group.id", GROUP);
        config.put("group.instance.id", name);
        config.put("session.timeout.ms", "6000");
        config.put("heartbeat.interval.ms", "1000");
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("isolation.level", "read_committed");
        config.put("max.poll.records", String.valueOf(BATCH_MAX));
        config.put("fetch.max.wait.ms", "20");
        config.put("reconnect.backoff.max.ms", "200");
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }
}
