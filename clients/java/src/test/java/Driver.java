import cavalcade.CoflowKey;
import cavalcade.CoflowOutputStream;
import cavalcade.Directive;
import cavalcade.Registration;
import cavalcade.Session;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The driver of the conformance suite for Java (see clients/README.md): {@code Driver SOCKET}. */
public final class Driver {
    private final Session session;
    private final Map<String, CoflowOutputStream> streams = new HashMap<>();
    /** The last write of each stream; it waits for the one before. */
    private final Map<String, Thread> writing = new HashMap<>();

    private Driver(Session session) {
        this.session = session;
    }

    public static void main(String[] arguments) throws Exception {
        try (Session session = new Session(Path.of(arguments[0]))) {
            Driver driver = new Driver(session);
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
                System.out.println(driver.answer(line.trim().split("\\s+")));
                System.out.flush();
            }
        }
        System.exit(0);
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "wait":
                return session.waitReady(Duration.ofSeconds(20)) ? "ready" : "no agent";
            case "register":
                return "key " + session.register(registration(words));
            case "open": {
                Long size = words.length > 5 ? Long.valueOf(words[5]) : null;
                Socket socket = new Socket(words[2], Integer.parseInt(words[3]));
                streams.put(words[1], session.stream(socket, CoflowKey.parse(words[4]), size));
                return "opened";
            }
            case "write":
                write(words[1], contents(Integer.parseInt(words[2]), Integer.parseInt(words[3])));
                return "writing";
            case "gate": {
                Directive directive = streams.get(words[1]).directive();
                String rate = directive.gate() == Directive.Gate.PACED ? " " + directive.rate() : "";
                return "gate " + directive.gate().name().toLowerCase() + rate;
            }
            case "carrier":
                return streams.get(words[1]).isInKernel() ? "kernel" : "library";
            case "finish":
                if (writing.containsKey(words[1])) {
                    writing.remove(words[1]).join();
                }
                streams.remove(words[1]).close();
                return "finished";
            case "unregister":
                session.unregister(CoflowKey.parse(words[1]));
                return "unregistered";
            default:
                throw new IllegalArgumentException("no command " + words[0]);
        }
    }

    private static Registration registration(String[] words) {
        List<CoflowKey> parents = new ArrayList<>();
        Duration deadline = null;
        Long size = null;
        boolean background = false;
        int weight = 1;
        String name = null;
        for (int place = 1; place < words.length; place++) {
            String[] fact = words[place].split("=", 2);
            switch (fact[0]) {
                case "parent" -> parents.add(CoflowKey.parse(fact[1]));
                case "size" -> size = Long.valueOf(fact[1]);
                case "deadline" -> deadline = Duration.ofSeconds(Long.parseLong(fact[1]));
                case "background" -> background = true;
                case "name" -> name = fact[1];
                case "weight" -> weight = Integer.parseInt(fact[1]);
                default -> throw new IllegalArgumentException(words[place] + " is nothing to register with");
            }
        }
        return new Registration(parents, deadline, size, background, weight, name);
    }

    private static byte[] contents(int length, int first) {
        byte[] bytes = new byte[length];
        for (int place = 0; place < length; place++) {
            bytes[place] = (byte) ((first + place) % 251);
        }
        return bytes;
    }

    private void write(String name, byte[] bytes) {
        CoflowOutputStream out = streams.get(name);
        Thread before = writing.get(name);
        Thread thread = new Thread(() -> {
            try {
                if (before != null) {
                    before.join();
                }
                out.write(bytes);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        });
        thread.start();
        writing.put(name, thread);
    }
}
