import cavalcade.CoflowChannel;
import cavalcade.CoflowKey;
import cavalcade.CoflowOutputStream;
import cavalcade.Directive;
import cavalcade.Flow;
import cavalcade.Registration;
import cavalcade.Session;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The driver of the conformance suite for Java (see clients/README.md): {@code Driver SOCKET stream|channel|flow}. */
public final class Driver {
    /** How long a write may take to fail. */
    private static final int PATIENCE_S = 20;

    private interface Work {
        void run() throws Exception;
    }

    /** A stream of either face. */
    private interface Face extends Closeable {
        void write(byte[] bytes) throws IOException;

        Directive directive();

        boolean isInKernel();

        Closeable detach();
    }

    private final Session session;
    private final String face;
    private final Map<String, Face> streams = new HashMap<>();
    /** The last writes of each stream; one more waits for the one before. */
    private final Map<String, List<CompletableFuture<Void>>> writing = new HashMap<>();
    private final List<Closeable> detached = new ArrayList<>();

    private Driver(Session session, String face) {
        this.session = session;
        this.face = face;
    }

    public static void main(String[] arguments) throws Exception {
        try (Session session = new Session(Path.of(arguments[0]))) {
            Driver driver = new Driver(session, arguments[1]);
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
                String answer;
                try {
                    answer = driver.answer(line.trim().split("\\s+"));
                } catch (IllegalArgumentException invalid) {
                    answer = "invalid " + invalid.getMessage();
                }
                System.out.println(answer);
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
            case "open":
                streams.put(words[1], open(words));
                return "opened";
            case "write": {
                List<CompletableFuture<Void>> before = writing.get(words[1]);
                byte[] bytes = contents(Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                Face face = streams.get(words[1]);
                writing.put(words[1], List.of(start(() -> {
                    if (before != null) {
                        before.get(0).get();
                    }
                    face.write(bytes);
                })));
                return "writing";
            }
            case "together": {
                Face face = streams.get(words[1]);
                List<CompletableFuture<Void>> all = new ArrayList<>();
                for (String value : Arrays.copyOfRange(words, 3, words.length)) {
                    byte[] bytes = new byte[Integer.parseInt(words[2])];
                    Arrays.fill(bytes, (byte) Integer.parseInt(value));
                    all.add(start(() -> face.write(bytes)));
                }
                writing.put(words[1], all);
                return "writing";
            }
            case "loop": {
                byte[] bytes = contents(Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                Face face = streams.get(words[1]);
                boolean selects = face instanceof OfChannel;
                Work work = selects ? () -> ((OfChannel) face).select(bytes) : () -> face.write(bytes);
                writing.put(words[1], List.of(start(work)));
                return "writing";
            }
            case "failed":
                return hasFailed(writing.remove(words[1])) ? "failed" : "writing";
            case "gate": {
                Directive directive = streams.get(words[1]).directive();
                String rate = directive.gate() == Directive.Gate.PACED ? " " + directive.rate() : "";
                return "gate " + directive.gate().name().toLowerCase() + rate;
            }
            case "carrier":
                return streams.get(words[1]).isInKernel() ? "kernel" : "library";
            case "finish":
                finishWriting(words[1]);
                streams.remove(words[1]).close();
                return "finished";
            case "detach":
                finishWriting(words[1]);
                detached.add(streams.remove(words[1]).detach());
                return "detached";
            case "drop":
                streams.remove(words[1]);
                System.gc();
                return "dropped";
            case "grant":
                session.grant(CoflowKey.parse(words[1]), Long.parseLong(words[2]));
                return "granted";
            case "unregister":
                session.unregister(CoflowKey.parse(words[1]));
                return "unregistered";
            case "end":
                session.close();
                return "ended";
            default:
                throw new IllegalStateException("no command " + words[0]);
        }
    }

    private Face open(String[] words) throws IOException {
        CoflowKey key = CoflowKey.parse(words[4]);
        Long size = words.length > 5 ? Long.valueOf(words[5]) : null;
        InetSocketAddress to = new InetSocketAddress(words[2], Integer.parseInt(words[3]));
        boolean isChannel = face.equals("channel");
        Closeable connection = isChannel ? SocketChannel.open(to) : new Socket(to.getAddress(), to.getPort());
        try {
            if (face.equals("flow")) {
                return new OfFlow((Socket) connection, session, key, size);
            }
            return isChannel
                ? new OfChannel(session.channel((SocketChannel) connection, key, size))
                : new OfStream(session.stream((Socket) connection, key, size));
        } catch (IllegalArgumentException invalid) {
            connection.close();
            throw invalid;
        }
    }

    private record OfStream(CoflowOutputStream out) implements Face {
        @Override
        public void write(byte[] bytes) throws IOException {
            out.write(bytes);
        }

        @Override
        public Directive directive() {
            return out.directive();
        }

        @Override
        public boolean isInKernel() {
            return out.isInKernel();
        }

        @Override
        public Closeable detach() {
            return out.detach();
        }

        @Override
        public void close() throws IOException {
            out.close();
        }
    }

    private record OfChannel(CoflowChannel out) implements Face {
        @Override
        public void write(byte[] bytes) throws IOException {
            out.write(ByteBuffer.wrap(bytes));
        }

        /** Writes from a loop that waits for the gate, and to read, which shows that the other end is gone. */
        void select(byte[] all) throws IOException {
            ByteBuffer bytes = ByteBuffer.wrap(all);
            out.channel().configureBlocking(false);
            try (Selector selector = Selector.open()) {
                SelectionKey gate = out.gate().register(selector, SelectionKey.OP_READ);
                SelectionKey connection = out.channel().register(selector, SelectionKey.OP_READ);
                while (bytes.hasRemaining()) {
                    selector.select();
                    if (connection.isReadable()) {
                        out.channel().read(ByteBuffer.allocate(1));
                    }
                    if (out.write(bytes) == 0 && gate.isReadable()) {
                        connection.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
                        gate.interestOps(0);
                    } else {
                        connection.interestOps(SelectionKey.OP_READ);
                        gate.interestOps(SelectionKey.OP_READ);
                    }
                    selector.selectedKeys().clear();
                }
            }
        }

        @Override
        public Directive directive() {
            return out.directive();
        }

        @Override
        public boolean isInKernel() {
            return out.isInKernel();
        }

        @Override
        public Closeable detach() {
            return out.detach();
        }

        @Override
        public void close() throws IOException {
            out.close();
        }
    }

    /** A program that writes by itself: it waits for news of its flow, and never longer than it is told to. */
    private static final class OfFlow implements Face, Flow.Connection {
        private final Socket socket;
        private final Flow flow;
        private boolean isNews;

        OfFlow(Socket socket, Session session, CoflowKey key, Long size) throws IOException {
            this.socket = socket;
            flow = session.flow(this, key, size);
            flow.resize(size);
        }

        @Override
        public InetSocketAddress local() {
            return (InetSocketAddress) socket.getLocalSocketAddress();
        }

        @Override
        public InetSocketAddress remote() {
            return (InetSocketAddress) socket.getRemoteSocketAddress();
        }

        @Override
        public synchronized void changed() {
            isNews = true;
            notifyAll();
        }

        @Override
        public int mark() throws IOException {
            return socket.getOption(StandardSocketOptions.IP_TOS);
        }

        @Override
        public void mark(int mark) throws IOException {
            socket.setOption(StandardSocketOptions.IP_TOS, mark);
        }

        @Override
        public void write(byte[] bytes) throws IOException {
            flow.idle(false);
            for (int from = 0; from < bytes.length;) {
                int piece = flow.allowance(bytes.length - from);
                if (piece == 0) {
                    pause(flow.delay());
                } else {
                    socket.getOutputStream().write(bytes, from, piece);
                    flow.sent(piece);
                    from += piece;
                }
            }
        }

        private synchronized void pause(long nanos) throws IOException {
            try {
                if (!isNews) {
                    wait(nanos / 1_000_000, (int) (nanos % 1_000_000));
                }
                isNews = false;
            } catch (InterruptedException interrupted) {
                throw new IOException(interrupted);
            }
        }

        @Override
        public Directive directive() {
            return flow.directive();
        }

        @Override
        public boolean isInKernel() {
            return flow.isInKernel();
        }

        @Override
        public Closeable detach() {
            flow.close();
            return socket;
        }

        @Override
        public void close() throws IOException {
            flow.close();
            socket.close();
        }
    }

    private static CompletableFuture<Void> start(Work work) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                work.run();
                done.complete(null);
            } catch (Exception error) {
                done.completeExceptionally(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return done;
    }

    private void finishWriting(String name) throws Exception {
        List<CompletableFuture<Void>> all = writing.remove(name);
        for (CompletableFuture<Void> one : all == null ? List.<CompletableFuture<Void>>of() : all) {
            one.get();
        }
    }

    private static boolean hasFailed(List<CompletableFuture<Void>> all) throws InterruptedException {
        for (CompletableFuture<Void> one : all) {
            try {
                one.get(PATIENCE_S, TimeUnit.SECONDS);
                return false;
            } catch (ExecutionException failure) {
                if (!(failure.getCause() instanceof IOException)) {
                    return false;
                }
            } catch (TimeoutException late) {
                return false;
            }
        }
        return true;
    }

    private static Registration registration(String[] words) {
        List<CoflowKey> parents = new ArrayList<>();
        Duration deadline = null;
        Long size = null;
        boolean background = false;
        long weight = 1;
        String name = null;
        for (int place = 1; place < words.length; place++) {
            String[] fact = words[place].split("=", 2);
            switch (fact[0]) {
                case "parent" -> parents.add(CoflowKey.parse(fact[1]));
                case "parents" -> parents = Collections.nCopies(Integer.parseInt(fact[1]), new CoflowKey(7, 0, 7));
                case "size" -> size = Long.valueOf(fact[1]);
                case "deadline" -> deadline = Duration.ofSeconds(Long.parseLong(fact[1]));
                case "background" -> background = true;
                case "name" -> name = fact[1];
                case "weight" -> weight = Long.parseLong(fact[1]);
                default -> throw new IllegalStateException(words[place] + " is nothing to register with");
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
}
