// Kafka Streams with exactly_once_v2: counts words until its input is closed. Java runs the file as it is.

import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class WordCount {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("application.id", args[1]);
        properties.put("state.dir", args[4]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        // Every count is written, also those that a cache would overwrite.
        properties.put("statestore.cache.max.bytes", 0);
        properties.put("commit.interval.ms", 100);
        properties.put("consumer.auto.offset.reset", "earliest");
        // Streams does not leave its group when it is closed: the next instance waits for the session to end.
        properties.put("main.consumer.session.timeout.ms", 6000);
        properties.put("main.consumer.heartbeat.interval.ms", 1000);

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[2])
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count(Materialized.as("counts"))
                .toStream()
                .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));

        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
            streams.start();
            while (System.in.read() >= 0) {
            }
            streams.close(Duration.ofSeconds(30));
        }
    }
}
