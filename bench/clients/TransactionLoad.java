import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.StringJoiner;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Commits transactions in sequence with Kafka's own producer, when told so by a line on stdin.
 *
 * <p>Arguments: bootstrap servers, transactional id. A line has a topic, the records of a transaction, their bytes, the
 * least number of transactions and the least seconds, between tabs. It is answered by the nanoseconds of each
 * transaction behind "ok", by "again" if it did not get to its end, or by what was thrown behind "error".
 */
public class TransactionLoad {
    private static final int RESTARTS_MAX = 3;

    public static void main(String[] args) throws Exception {
        Map<String, Object> config =
            Map.of("bootstrap.servers", args[0], "transactional.id", args[1], "linger.ms", 0, "acks", "all");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            KafkaProducer<byte[], byte[]> producer = start(config);
            int restarts = 0;
            String line = lines.readLine();
            while (line != null) {
                try {
                    System.out.println("ok\t" + commit(producer, line.split("\t")));
                    line = lines.readLine();
                } catch (InvalidTxnStateException error) {
                    // The client's commit has overtaken its record, with any broker: see docs/clients.md.
                    if (restarts++ == RESTARTS_MAX) {
                        throw error;
                    }
                    producer.close(Duration.ZERO);
                    producer = start(config);
                    System.out.println("again\t" + error.getMessage());
                    line = lines.readLine();
                }
            }
        } catch (Exception error) {
            String cause = error.getCause() == null ? "" : " because of " + error.getCause();
            System.out.println("error\t" + (error + cause).replaceAll("\\s+", " "));
        }
    }

    /** The last one is not closed: its thread ends with the process, and a close after an error would wait. */
    private static KafkaProducer<byte[], byte[]> start(Map<String, Object> config) {
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    private static StringJoiner commit(KafkaProducer<byte[], byte[]> producer, String[] words) {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(words[0], new byte[Integer.parseInt(words[2])]);
        int records = Integer.parseInt(words[1]);
        int least = Integer.parseInt(words[3]);
        StringJoiner took = new StringJoiner(" ");
        long now = System.nanoTime();
        long deadline = now + (long) (Double.parseDouble(words[4]) * 1e9);
        for (int count = 0; count < least || now < deadline; count++) {
            producer.beginTransaction();
            for (int sent = 0; sent < records; sent++) {
                producer.send(record);
            }
            producer.commitTransaction();
            long done = System.nanoTime();
            took.add(Long.toString(done - now));
            now = done;
        }
        return took;
    }
}
