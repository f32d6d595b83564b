import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional producers of Kafka's own client, driven by lines of tab-separated words on stdin. */
public class TransactionDriver {
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            try {
                carryOut(words[0], words);
                System.out.println("ok");
            } catch (Exception error) {
                String message = String.valueOf(error.getMessage()).replace('\n', ' ').replace('\t', ' ');
                System.out.println("error\t" + error.getClass().getSimpleName() + "\t" + message);
            }
            System.out.flush();
        }
    }

    private static void carryOut(String verb, String[] words) throws Exception {
        String name = words[1];
        if (verb.equals("new")) {
            start(name, words[2], words[3], words[4]);
            return;
        }
        KafkaProducer<String, String> producer = PRODUCERS.get(name);
        switch (verb) {
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(words[2], Integer.valueOf(words[3]), null, words[4]));
            case "flush" -> producer.flush();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "offsets" -> sendOffsets(producer, words);
            case "close" -> PRODUCERS.remove(name).close(java.time.Duration.ZERO);
            default -> throw new IllegalArgumentException(verb);
        }
    }

    private static void start(String name, String address, String transactionalId, String timeoutMs) {
        Properties config = new Properties();
        config.put("bootstrap.servers", address);
        config.put("transactional.id", transactionalId);
        config.put("transaction.timeout.ms", timeoutMs);
        config.put("max.block.ms", "30000");
        config.put("request.timeout.ms", "10000");
        config.put("reconnect.backoff.ms", "5");
        config.put("reconnect.backoff.max.ms", "50");
        config.put("retry.backoff.ms", "5");
        config.put("retry.backoff.max.ms", "50");
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        PRODUCERS.put(name, producer);
        producer.initTransactions();
    }

    private static void sendOffsets(KafkaProducer<String, String> producer, String[] words) {
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(
            new TopicPartition(words[2], Integer.parseInt(words[3])),
            new OffsetAndMetadata(Long.parseLong(words[4])));
        ConsumerGroupMetadata group = words.length > 6
            ? new ConsumerGroupMetadata(words[5], Integer.parseInt(words[7]), words[6], Optional.empty())
            : new ConsumerGroupMetadata(words[5]);
        producer.sendOffsetsToTransaction(offsets, group);
    }
}
