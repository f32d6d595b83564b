import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/** Answers each line "class version hex" with the bytes that Apache Kafka writes after reading those, in hex. */
public class Recode {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, true);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            out.println(recode(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
        }
    }

    private static String recode(String name, short version, byte[] encoded) {
        try {
            ByteBufferAccessor readable = new ByteBufferAccessor(ByteBuffer.wrap(encoded));
            Message message = (Message) Class.forName(name)
                .getConstructor(Readable.class, short.class)
                .newInstance(readable, version);
            if (readable.remaining() > 0) {
                return readable.remaining() + " bytes are left over";
            }
            ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] bytes = new byte[written.remaining()];
            written.get(bytes);
            return HexFormat.of().formatHex(bytes);
        } catch (Exception error) {
            return String.valueOf(error.getCause() == null ? error : error.getCause()).replace('\n', ' ');
        }
    }
}
