import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams, exactly once: lines are split into words, which go through a repartition topic and are counted in a
 * store with a changelog. Each change of a count is written as "word count". ADDRESS SOURCE TARGET STATE_DIRECTORY; it
 * runs until it is killed.
 */
public class WordCount {
    public static void main(String[] args) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues((word, count) -> word + " " + count)
            .to(args[2], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), config(args[0], args[3]));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
    }

    private static Properties config(String address, String stateDirectory) {
        Properties config = new Properties();
        config.put("application.id", "wordcount");
        config.put("bootstrap.servers", address);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("state.dir", stateDirectory);
        config.put("num.stream.threads", "2");
        config.put("replication.factor", "1");
        config.put("commit.interval.ms", "100");
        // Without a cache every change is written, so that a count that is left out or comes twice can be seen.
        config.put("statestore.cache.max.bytes", "0");
        config.put("repartition.purge.interval.ms", "1000");
        config.put("default.key.serde", Serdes.String().getClass().getName());
        config.put("default.value.serde", Serdes.String().getClass().getName());
        config.put("consumer.auto.offset.reset", "earliest");
        config.put("reconnect.backoff.max.ms", "200");
        // A static member takes the place of the one that was killed at once.
        config.put("main.consumer.group.instance.id", "counter");
        config.put("main.consumer.session.timeout.ms", "6000");
        config.put("main.consumer.heartbeat.interval.ms", "1000");
        return config;
    }
}
