package cavalcade;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.lang.ref.Cleaner;
import java.net.Socket;
import java.nio.channels.NotYetConnectedException;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * An application's connection to the agent of its host. There may be none: then all is plain TCP, and the session goes under
 * the agent's orders by itself once there is one. No call waits for longer than a lease of the agent after its last word.
 *
 * <pre>{@code
 * try (Session session = new Session(Path.of("/run/cavalcade.sock"))) {
 *     CoflowKey shuffle = session.register(new Registration());
 *     try (OutputStream out = session.stream(new Socket("10.0.0.7", 9000), shuffle, null)) {
 *         out.write(mapOutput);
 *     }
 *     session.unregister(shuffle);
 * }
 * }</pre>
 *
 * <p>A wrong argument fails with an {@link IllegalArgumentException} and changes nothing. Streams that are dropped close, and their
 * flows end. Without an enforcer streams hold paced flows to their rates themselves, since Java has no word for
 * SO_MAX_PACING_RATE.
 */
public final class Session implements AutoCloseable {
    static final long PATIENCE_NS = 200_000_000;
    /** The time in which the kernel part of an enforcer that was killed may still set classes back. */
    private static final long AFTERMATH_NS = 5_000_000_000L;
    /** The pause between two looks for the other end of a connection that waits. */
    static final long LOOK_NS = 100_000_000;
    /** CS5 to CS2, the default, then lower effort (RFC 8622). */
    private static final int[] DSCP = {40, 32, 24, 16, 0, 1, 1, 1};

    private static final long OFFSET = offset();
    private static final Cleaner CLEANER = Cleaner.create();

    final Object lock = new Object();
    final Client client = new Client(new SecureRandom().nextLong(), this::directed);
    final KernelPath kernel = new KernelPath();
    boolean isClosed;
    boolean isBroken;
    /** By the client's number of the flow. */
    private final Map<Integer, Carriage> carriages = new HashMap<>();
    /** When the enforcer was lost that carried something. */
    private long lostAt = System.nanoTime() - AFTERMATH_NS;

    /** A session with the agent that listens at {@code path}, which is looked for in the background. */
    public Session(Path path) {
        new Threads(this, Arguments.paths(path)).start();
    }

    /** A session with the agent that is found first where agents are ({@link Places}), now and whenever it is gone. */
    public Session() {
        this(List.copyOf(Places.of(System.getenv())), true);
    }

    private Session(List<Path> places, boolean areMany) {
        places.forEach(Arguments::path);
        new Threads(this, places).start();
    }

    /** A session with the agent that is found first at these places. */
    public static Session at(List<Path> places) {
        return new Session(List.copyOf(places), true);
    }

    /**
     * The time: nanoseconds since 1970 when the program started, monotonic from then on. The wall clock can be set back while
     * a lease holds, which would keep a flow waiting for as long.
     */
    static long now() {
        return OFFSET + System.nanoTime();
    }

    private static long offset() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000 + now.getNano() - System.nanoTime();
    }

    /** Waits on the lock, at most for so many nanoseconds. */
    private void await(long nanos) throws InterruptedException {
        lock.wait(nanos / 1_000_000, (int) (nanos % 1_000_000));
    }

    /** Waits for news with the lock held; an interrupt is news. */
    void pause(long nanos) {
        try {
            await(nanos);
        } catch (InterruptedException interrupted) {
            // It is a thread of the session's own, and has nothing to give up.
        }
    }

    /** Something to wait for with the lock held. */
    private interface Condition {
        boolean holds();
    }

    /** Waits until something holds, at most so long; an interrupt is kept for later. Returns whether it does. */
    boolean waitFor(long nanos, Condition condition) {
        long until = System.nanoTime() + nanos;
        boolean isInterrupted = false;
        try {
            while (!condition.holds()) {
                long left = until - System.nanoTime();
                if (left <= 0) {
                    return false;
                }
                try {
                    await(left);
                } catch (InterruptedException interrupted) {
                    isInterrupted = true;
                }
            }
            return true;
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Waits until an agent has answered: for tests and tools, since everything works without. */
    public boolean waitReady(Duration longest) {
        long nanos = Arguments.patience(longest);
        synchronized (lock) {
            return waitFor(nanos, client::isWelcomed);
        }
    }

    /**
     * A new coflow. Returns at once without an agent, and else as soon as it answers; after 200 ms at most. Where the agent
     * refuses, the key is good all the same and the flows are plain TCP; see {@link #tryRegister}.
     */
    public CoflowKey register(Registration registration) {
        return ask(registration).key();
    }

    /** As {@link #register}, for an application that would rather not go on without the agent's orders. */
    public CoflowKey tryRegister(Registration registration) throws RefusedException {
        Answer answer = ask(registration);
        if (answer.refused() != null) {
            throw new RefusedException("the agent refused " + answer.refused());
        }
        return answer.key();
    }

    /** What the agent refused lately, the oldest first: at most 64. */
    public List<String> refusals() {
        synchronized (lock) {
            return client.refusals().stream().map(Wire.Refused::toString).toList();
        }
    }

    private record Answer(CoflowKey key, Wire.Refused refused) {}

    private Answer ask(Registration registration) {
        Arguments.registration(registration);
        synchronized (lock) {
            int request = client.register(now(), registration);
            lock.notifyAll();
            if (!waitFor(PATIENCE_NS, () -> client.hasKey(request))) {
                // The agent hangs: the client gets along without.
                client.handleDisconnected(now());
                isBroken = true;
            }
            return new Answer(client.takeKey(request), refusal(request));
        }
    }

    private Wire.Refused refusal(int request) {
        return client.refusals().stream()
                .filter(refused -> refused.request() != null && refused.request() == request)
                .findFirst()
                .orElse(null);
    }

    /**
     * Makes {@code socket}, connected to its receiver, carry a flow of a coflow: of {@code size} bytes, null where that is not
     * known. Fails with an {@link IOException} where the socket is closed or not connected.
     */
    public CoflowOutputStream stream(Socket socket, CoflowKey key, Long size) throws IOException {
        Carriage carriage = Carriage.of(socket, key, size);
        OutputStream out = socket.getOutputStream();
        open(carriage);
        CoflowOutputStream stream = new CoflowOutputStream(this, socket, out, carriage);
        CLEANER.register(stream, () -> end(carriage, carriage.isReachable()));
        return stream;
    }

    /** The same for a channel, which may be one that does not block. */
    public CoflowChannel channel(SocketChannel channel, CoflowKey key, Long size) throws IOException {
        if (channel == null) {
            throw new IllegalArgumentException("expected a connected channel, found null");
        }
        if (channel.isOpen() && !channel.isConnected()) {
            throw new NotYetConnectedException();
        }
        Carriage carriage = Carriage.of(channel.socket(), key, size);
        open(carriage);
        CoflowChannel stream = new CoflowChannel(this, channel, carriage);
        CLEANER.register(stream, () -> drop(carriage, channel));
        return stream;
    }

    /**
     * A flow over a connection that its program writes to by itself, as an event loop does: {@link Flow#allowance} says how much
     * it may, and {@link Flow.Connection#changed} when to ask again. No thread waits for it.
     */
    public Flow flow(Flow.Connection connection, CoflowKey key, Long size) throws IOException {
        Carriage carriage = Carriage.of(connection, key, size);
        open(carriage);
        return new Flow(this, carriage);
    }

    /** A stream of a channel was dropped; Java itself closes no channel that is. */
    private void drop(Carriage carriage, SocketChannel channel) {
        end(carriage, false);
        closeGate(carriage);
        try {
            if (!carriage.isDetached) {
                channel.close();
            }
        } catch (IOException over) {
            // It was closed before.
        }
    }

    private void open(Carriage carriage) {
        synchronized (lock) {
            if (isClosed) {
                carriage.isOver = true;
            } else if (!kernel.handOver(carriage)) {
                carry(carriage, carriage.size);
            }
        }
    }

    /** Carries orders out for a connection from here on, which is to send {@code size} more; called with the lock held. */
    private void carry(Carriage carriage, Long size) {
        carriage.flow = client.open(carriage.key, carriage.local, carriage.remote, size);
        carriage.isInKernel = false;
        carriages.put(carriage.flow, carriage);
        lock.notifyAll();
    }

    /** Takes back what the kernel does not carry, or not any more; called with the lock held. */
    private void takeBack(Carriage carriage, boolean isTold) {
        if (carriage.isOver) {
            int flow = client.open(carriage.key, carriage.local, carriage.remote, null);
            client.sent(flow, carriage.sent);
            client.close(flow);
            lock.notifyAll();
            return;
        }
        long told = isTold ? carriage.sent : 0;
        boolean isKnown = carriage.size != null && carriage.size >= told;
        carry(carriage, isKnown ? Long.valueOf(carriage.size - told) : null);
        client.sent(carriage.flow, carriage.sent - told);
    }

    /**
     * Lets another user, by the number that hosts have for it, take part in a coflow of this user. The agent refuses that to
     * who does not own the coflow; see {@link #refusals}.
     */
    public void grant(CoflowKey key, long user) {
        Arguments.key(key);
        int number = Arguments.user(user);
        synchronized (lock) {
            client.grant(key, number);
            lock.notifyAll();
        }
    }

    /** A coflow is over. Streams of it that are still open go on as plain TCP. */
    public void unregister(CoflowKey key) {
        Arguments.key(key);
        synchronized (lock) {
            endAll(key);
            client.unregister(key);
            lock.notifyAll();
        }
    }

    /** Ends the session and its flows; streams that are open go on as plain TCP. */
    @Override
    public void close() {
        synchronized (lock) {
            isClosed = true;
            endAll(null);
            kernel.hangUp();
            client.handleDisconnected(now());
            lock.notifyAll();
        }
    }

    /** Ends all flows of a coflow, or of all where it is null. */
    private void endAll(CoflowKey key) {
        List<Carriage> all = new ArrayList<>(carriages.values());
        all.addAll(kernel.handed());
        all.stream().filter(carriage -> key == null || carriage.key.equals(key)).forEach(one -> endOne(one, true));
    }

    /** A stream is over; its connection {@code stays}, or is about to be closed. */
    void end(Carriage carriage, boolean stays) {
        synchronized (lock) {
            endOne(carriage, stays);
        }
    }

    /** Ends a flow; called with the lock held. */
    private void endOne(Carriage carriage, boolean stays) {
        if (carriage.isOver) {
            return;
        }
        if (carriage.isInKernel) {
            kernel.close(carriage, stays);
        } else {
            client.close(carriage.flow);
            carriages.remove(carriage.flow);
            carriage.mark(null);
        }
        carriage.isOver = true;
        show(carriage);
        lock.notifyAll();
    }

    /** A flow has so much left to send; what the kernel carries stays as it is. */
    void resize(Carriage carriage, Long left) {
        synchronized (lock) {
            if (!carriage.isOver && !carriage.isInKernel) {
                carriages.remove(carriage.flow);
                carriage.flow = client.resize(carriage.flow, left);
                carriages.put(carriage.flow, carriage);
                lock.notifyAll();
            }
        }
    }

    boolean isInKernel(Carriage carriage) {
        synchronized (lock) {
            return carriage.isInKernel && !carriage.isOver;
        }
    }

    Directive directive(Carriage carriage) {
        synchronized (lock) {
            return directiveOf(carriage);
        }
    }

    private Directive directiveOf(Carriage carriage) {
        boolean isOpen = carriage.isOver || carriage.flow == null;
        return isOpen ? Directive.PLAIN : client.directive(carriage.flow, now());
    }

    /** As {@link #directive}, of a flow that has something to send. */
    Directive wishToSend(Carriage carriage) {
        synchronized (lock) {
            setIdle(carriage, false);
            return directiveOf(carriage);
        }
    }

    /**
     * Waits while a flow may not send, and returns how it may. Where its connection is gone, it may: to write says how it went. What
     * is told while a piece is not due counts from then on.
     */
    Directive waitForTurn(Carriage carriage, Socket socket, Pace pace) throws IOException {
        try {
            synchronized (lock) {
                setIdle(carriage, false);
            }
            Connections watched = null;
            while (true) {
                // Reads a table of the whole host, so not with the lock held.
                boolean isGone = watched != null && watched.isGone();
                synchronized (lock) {
                    Directive directive = directiveOf(carriage);
                    boolean isOff = directive.gate() == Directive.Gate.OFF;
                    long left = isOff ? LOOK_NS : pace.left(directive);
                    if (left == 0 || isOff && (isGone || isShut(socket))) {
                        return isOff ? Directive.PLAIN : directive;
                    }
                    if (isOff && watched == null) {
                        watched = new Connections(carriage.local, carriage.remote);
                        continue;
                    }
                    await(left);
                }
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while the flow waited for its turn");
        }
    }

    private static boolean isShut(Socket socket) {
        return socket.isClosed() || socket.isOutputShutdown();
    }

    void sent(Carriage carriage, long more) {
        synchronized (lock) {
            if (carriage.flow == null) {
                carriage.sent += more;
            } else {
                client.sent(carriage.flow, more);
            }
        }
    }

    void rest(Carriage carriage) {
        idle(carriage, true);
    }

    void idle(Carriage carriage, boolean isIdle) {
        synchronized (lock) {
            setIdle(carriage, isIdle);
        }
    }

    private void setIdle(Carriage carriage, boolean isIdle) {
        if (carriage.flow != null) {
            client.setIdle(carriage.flow, isIdle);
        }
    }

    /** What shows an event loop whether a flow may send. */
    Gate gate(Carriage carriage) throws IOException {
        synchronized (lock) {
            if (carriage.gate == null) {
                carriage.gate = new Gate();
                show(carriage);
            }
            return carriage.gate;
        }
    }

    /** Shows at its gate that a piece is not due, or may be. */
    void showGate(Carriage carriage, boolean isDue) {
        synchronized (lock) {
            if (carriage.gate != null) {
                carriage.gate.show(isDue && directiveOf(carriage).gate() != Directive.Gate.OFF);
            }
        }
    }

    private void show(Carriage carriage) {
        showGate(carriage, true);
        carriage.changed();
    }

    void closeGate(Carriage carriage) {
        synchronized (lock) {
            if (carriage.gate != null) {
                carriage.gate.close();
                carriage.gate = null;
            }
        }
    }

    /** Carries out what the client has been told; called with the lock held. */
    private void directed(int flow) {
        Carriage carriage = carriages.get(flow);
        if (carriage != null) {
            Integer trafficClass = client.directive(flow, now()).trafficClass();
            carriage.mark(trafficClass == null ? null : Integer.valueOf(DSCP[Math.min(trafficClass, 7)] << 2));
            show(carriage);
        }
        lock.notifyAll();
    }

    /** The enforcer has answered. */
    void handleAnswer(String answer) {
        synchronized (lock) {
            Carriage refused = kernel.answer(answer.startsWith("ok "));
            if (refused != null) {
                takeBack(refused, false);
            }
            lock.notifyAll();
        }
    }

    /** The enforcer is gone: takes everything back. Called with the lock held. */
    void loseEnforcer() {
        List<KernelPath.Returned> lost = kernel.lose();
        lostAt = lost.isEmpty() ? lostAt : System.nanoTime();
        lost.forEach(back -> takeBack(back.carriage(), back.isTold()));
        if (System.nanoTime() - lostAt < AFTERMATH_NS) {
            List.copyOf(carriages.keySet()).forEach(this::directed);
        }
        lock.notifyAll();
    }
}
