import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the command-line tools of Kafka one after the other in one JVM, which takes longer to start than they to run.
 *
 * A line of input is a class, what it finds on its standard input, and its arguments; a line of output is the exit
 * code, what it printed, and what it printed as errors. All words but the code are in Base64, with tabs between.
 */
public final class Toolbox {
    /** What the tool wants to be done when it ends, such as sending what is not sent yet. */
    private static final Queue<Runnable> ATEXIT = new ConcurrentLinkedQueue<>();
    private static volatile CompletableFuture<Integer> ended = new CompletableFuture<>();

    /** Goes on when a tool begins: whoever has kept the stream, as loggers do, writes to the tool that runs. */
    private static final class Switch extends OutputStream {
        volatile ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public void write(int value) {
            target.write(value);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            target.write(bytes, offset, length);
        }

        String take() {
            byte[] bytes = target.toByteArray();
            target = new ByteArrayOutputStream();
            return Base64.getEncoder().encodeToString(bytes);
        }
    }

    public static void main(String[] unused) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream answers = System.out;
        Switch out = new Switch();
        Switch err = new Switch();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((hook, action) -> ATEXIT.add(action));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = Arrays.stream(line.split("\t", -1)).map(Toolbox::decoded).toArray(String[]::new);
            System.setIn(new ByteArrayInputStream(words[1].getBytes(StandardCharsets.UTF_8)));
            int code = run(words[0], Arrays.copyOfRange(words, 2, words.length));
            System.out.flush();
            System.err.flush();
            answers.println(code + "\t" + out.take() + "\t" + err.take());
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String name, String[] arguments) throws Exception {
        ended = new CompletableFuture<>();
        Thread tool = new Thread(() -> ended.complete(runMain(name, arguments)));
        tool.setDaemon(true);
        tool.start();
        int code = ended.get();
        for (Runnable action = ATEXIT.poll(); action != null; action = ATEXIT.poll()) {
            action.run();
        }
        return code;
    }

    private static int runMain(String name, String[] arguments) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException failure) {
            failure.getCause().printStackTrace();
        } catch (ReflectiveOperationException failure) {
            failure.printStackTrace();
        }
        return 1;
    }

    /** A tool that ends itself does not come back from that. */
    private static void end(int code) {
        ended.complete(code);
        while (true) {
            LockSupport.park();
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
