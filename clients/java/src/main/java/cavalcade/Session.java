package cavalcade;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.Socket;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
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
 *     try (OutputStream out = session.stream(new Socket("10.0.0.7", 7337), shuffle, null)) {
 *         out.write(mapOutput);
 *     }
 *     session.unregister(shuffle);
 * }
 * }</pre>
 *
 * <p>Three threads keep a session: one reads what the agent says, one writes and keeps the time, one looks for the enforcer
 * that connections are handed over to. Without one streams hold paced flows to their rates themselves, since Java has no word
 * for SO_MAX_PACING_RATE.
 */
public final class Session implements AutoCloseable {
    private static final long PATIENCE_NS = 200_000_000;
    private static final long RETRY_MS = 50;
    /** Where the agent refuses the connection, or no enforcer is there. */
    private static final long RETRY_REFUSED_MS = 1_000;
    /** The time in which the kernel part of an enforcer that was killed may still set classes back. */
    private static final long AFTERMATH_NS = 5_000_000_000L;
    /** CS5 to CS2, the default, then lower effort (RFC 8622). */
    private static final int[] DSCP = {40, 32, 24, 16, 0, 1, 1, 1};

    private static final long OFFSET = offset();

    private final Object lock = new Object();
    private final Path path;
    private final Client client = new Client(new SecureRandom().nextLong(), this::directed);
    private final Map<Integer, Carrier> carriers = new HashMap<>();
    private final KernelPath kernel = new KernelPath();
    /** The client's flow of each connection that was handed over and is the session's again. */
    private final Map<Integer, Integer> returned = new HashMap<>();
    /** When the enforcer was lost that carried something. */
    private long lostAt = System.nanoTime() - AFTERMATH_NS;
    private boolean isClosed;
    private boolean isBroken;

    /** A session with the agent that listens at {@code path}, which is looked for in the background. */
    public Session(Path path) {
        this.path = path;
        start(this::keepConnected);
        start(this::keepEnforcer);
    }

    private static Thread start(Runnable work) {
        Thread thread = new Thread(work, "cavalcade-client");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /**
     * The time: nanoseconds since 1970 when the program started, monotonic from then on. The wall clock can be set back while
     * a lease holds, which would keep a flow waiting for as long.
     */
    private static long now() {
        return OFFSET + System.nanoTime();
    }

    private static long offset() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000 + now.getNano() - System.nanoTime();
    }

    /** Waits on the lock, at most for so many nanoseconds. */
    private void await(long nanos) {
        try {
            lock.wait(nanos / 1_000_000, (int) (nanos % 1_000_000));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while waiting for the agent", interrupted);
        }
    }

    /** Waits until an agent has answered: for tests and tools, since everything works without. */
    public boolean waitReady(Duration longest) {
        long until = System.nanoTime() + longest.toNanos();
        synchronized (lock) {
            while (!client.isWelcomed() && until - System.nanoTime() > 0) {
                await(Math.max(until - System.nanoTime(), 1));
            }
            return client.isWelcomed();
        }
    }

    /**
     * A new coflow. Returns at once without an agent, and else as soon as it answers; after 200 ms at most. Where the agent
     * refuses, the key is good all the same and the flows are plain TCP; see {@link #tryRegister}.
     */
    public CoflowKey register(Registration registration) {
        return registerOrHear(registration).key();
    }

    /** As {@link #register}, for an application that would rather not go on without the agent's orders. */
    public CoflowKey tryRegister(Registration registration) throws RefusedException {
        Answer answer = registerOrHear(registration);
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

    private Answer registerOrHear(Registration registration) {
        synchronized (lock) {
            int request = client.register(now(), registration);
            lock.notifyAll();
            long until = System.nanoTime() + PATIENCE_NS;
            while (true) {
                CoflowKey key = client.takeKey(request);
                if (key != null) {
                    return new Answer(key, refusal(request));
                }
                long left = until - System.nanoTime();
                if (left > 0) {
                    await(left);
                } else {
                    // The agent hangs: the client gets along without.
                    client.handleDisconnected(now());
                    isBroken = true;
                }
            }
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
     * known.
     */
    public CoflowOutputStream stream(Socket socket, CoflowKey key, Long size) throws IOException {
        Carrier carrier = Carrier.of(socket, key, size);
        synchronized (lock) {
            Integer number = kernel.handOver(carrier);
            return new CoflowOutputStream(this, socket, number == null ? carry(carrier, size) : number);
        }
    }

    /** Carries orders out for a connection from here on, which is to send {@code size} more; called with the lock held. */
    private int carry(Carrier carrier, Long size) {
        int flow = client.open(carrier.key(), carrier.local(), carrier.remote(), size);
        carriers.put(flow, carrier);
        lock.notifyAll();
        return flow;
    }

    /** Takes back what the kernel does not carry, or not any more; called with the lock held. */
    private void takeBack(KernelPath.Returned back) {
        KernelPath.Handed handed = back.handed();
        Carrier carrier = handed.carrier;
        if (handed.isOver) {
            int flow = client.open(carrier.key(), carrier.local(), carrier.remote(), null);
            client.sent(flow, handed.sent);
            client.close(flow);
            lock.notifyAll();
            return;
        }
        long told = back.isTold() ? handed.sent : 0;
        Long left = carrier.size() == null || carrier.size() < told ? null : Long.valueOf(carrier.size() - told);
        int flow = carry(carrier, left);
        client.sent(flow, handed.sent - told);
        returned.put(back.number(), flow);
    }

    /** The client's number of a flow, null where the kernel carries it; called with the lock held. */
    private Integer ofClient(int flow) {
        return flow >= 0 ? Integer.valueOf(flow) : returned.get(flow);
    }

    /**
     * Lets another user, by the number that hosts have for it, take part in a coflow of this user. The agent refuses that to
     * who does not own the coflow; see {@link #refusals}.
     */
    public void grant(CoflowKey key, int user) {
        synchronized (lock) {
            client.grant(key, user);
            lock.notifyAll();
        }
    }

    /** A coflow is over. */
    public void unregister(CoflowKey key) {
        synchronized (lock) {
            client.unregister(key);
            lock.notifyAll();
        }
    }

    /** Ends the session; its flows go on as plain TCP, but for those that the kernel carries. */
    @Override
    public void close() {
        synchronized (lock) {
            isClosed = true;
            kernel.hangUp();
            client.handleDisconnected(now());
            lock.notifyAll();
        }
    }

    boolean isInKernel(int flow) {
        synchronized (lock) {
            return kernel.carries(flow);
        }
    }

    Directive directive(int flow) {
        synchronized (lock) {
            return directiveOf(ofClient(flow));
        }
    }

    private Directive directiveOf(Integer ofClient) {
        return ofClient == null ? Directive.PLAIN : client.directive(ofClient, now());
    }

    /** Waits while a flow may not send, and returns how it may. */
    Directive waitForGate(int flow) {
        synchronized (lock) {
            Integer ofClient = ofClient(flow);
            if (ofClient != null) {
                client.setIdle(ofClient, false);
            }
            while (directiveOf(ofClient).gate() == Directive.Gate.OFF) {
                await(PATIENCE_NS);
            }
            return directiveOf(ofClient);
        }
    }

    void sent(int flow, long more) {
        synchronized (lock) {
            Integer ofClient = ofClient(flow);
            if (ofClient == null) {
                kernel.sent(flow, more);
            } else {
                client.sent(ofClient, more);
            }
        }
    }

    void rest(int flow) {
        synchronized (lock) {
            Integer ofClient = ofClient(flow);
            if (ofClient != null) {
                client.setIdle(ofClient, true);
            }
        }
    }

    void closeFlow(int flow) {
        synchronized (lock) {
            Integer ofClient = ofClient(flow);
            if (ofClient == null) {
                kernel.close(flow);
                return;
            }
            returned.remove(flow);
            client.close(ofClient);
            carriers.remove(ofClient);
            lock.notifyAll();
        }
    }

    /** Carries out what the client has been told; called with the lock held. */
    private void directed(int flow) {
        Carrier carrier = carriers.get(flow);
        if (carrier != null) {
            try {
                Integer trafficClass = client.directive(flow, now()).trafficClass();
                int mark = trafficClass == null ? carrier.ownMark() : DSCP[Math.min(trafficClass, 7)] << 2;
                carrier.socket().setOption(StandardSocketOptions.IP_TOS, mark);
            } catch (IOException | UnsupportedOperationException gone) {
                // Closed by now, or a system without: a connection without its class is still a connection.
            }
        }
        lock.notifyAll();
    }

    /** Looks for the enforcer beside the agent until the session is closed. */
    private void keepEnforcer() {
        while (true) {
            try (Enforcer enforcer = Enforcer.beside(path)) {
                synchronized (lock) {
                    if (isClosed) {
                        return;
                    }
                    kernel.found(enforcer);
                }
                enforcer.listen(this::hearEnforcer);
            } catch (IOException none) {
                // There is none at present.
            } catch (UnsupportedOperationException | LinkageError unable) {
                // Nothing says who listens there: this is not Linux, or a Java without jdk.net.
                return;
            }
            synchronized (lock) {
                loseEnforcer();
                if (isClosed) {
                    return;
                }
            }
            try {
                Thread.sleep(RETRY_REFUSED_MS);
            } catch (InterruptedException interrupted) {
                return;
            }
        }
    }

    private void hearEnforcer(String answer) {
        synchronized (lock) {
            KernelPath.Returned refused = kernel.answer(answer.startsWith("ok "));
            if (refused != null) {
                takeBack(refused);
            }
        }
    }

    /** Takes everything back; called with the lock held. */
    private void loseEnforcer() {
        List<KernelPath.Returned> lost = kernel.lose();
        lostAt = lost.isEmpty() ? lostAt : System.nanoTime();
        lost.forEach(this::takeBack);
        if (System.nanoTime() - lostAt < AFTERMATH_NS) {
            carriers.keySet().forEach(this::directed);
        }
    }

    /** Looks for the agent until the session is closed. */
    private void keepConnected() {
        while (true) {
            synchronized (lock) {
                if (isClosed) {
                    return;
                }
            }
            try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
                channel.connect(UnixDomainSocketAddress.of(path));
                attend(channel);
            } catch (IOException none) {
                // There is none at present.
            }
            long pause;
            synchronized (lock) {
                isBroken = false;
                pause = client.isRefused() ? RETRY_REFUSED_MS : RETRY_MS;
                client.handleDisconnected(now());
                lock.notifyAll();
            }
            try {
                Thread.sleep(pause);
            } catch (InterruptedException interrupted) {
                return;
            }
        }
    }

    /** One connection, from its hello to its end. */
    private void attend(SocketChannel channel) throws IOException {
        synchronized (lock) {
            client.handleConnected();
        }
        Thread listening = start(() -> listen(channel));
        try {
            talk(channel);
        } finally {
            channel.close();
            try {
                listening.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void listen(SocketChannel channel) {
        try {
            DataInputStream in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(channel)));
            Wire.listen(in, message -> {
                synchronized (lock) {
                    client.handleMessage(now(), message);
                    lock.notifyAll();
                }
            });
        } catch (IOException over) {
            synchronized (lock) {
                isBroken = true;
                lock.notifyAll();
            }
        }
    }

    /**
     * Writes what is to be sent, and keeps the time. An agent that reads nothing blocks it; streams that wait for a gate check
     * the lease themselves.
     */
    private void talk(SocketChannel channel) throws IOException {
        long connected = System.nanoTime();
        while (true) {
            List<byte[]> said;
            synchronized (lock) {
                boolean isSilent = client.handleTimeout(now());
                boolean hangs = !client.isWelcomed() && System.nanoTime() - connected > PATIENCE_NS;
                if (isSilent || hangs || isBroken || isClosed) {
                    return;
                }
                said = client.takeMessages();
                if (said.isEmpty()) {
                    await(Math.max(client.timeout(now()), 100_000));
                }
            }
            for (byte[] frame : said) {
                ByteBuffer buffer = ByteBuffer.wrap(frame);
                while (buffer.hasRemaining()) {
                    channel.write(buffer);
                }
            }
        }
    }
}
