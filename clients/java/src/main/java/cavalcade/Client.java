package cavalcade;

import cavalcade.Wire.Facts;
import cavalcade.Wire.Writer;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.IntConsumer;

/**
 * The library's side of the agent protocol, without sockets or clocks: what is transferred, and how it may be.
 *
 * <p>Nothing here makes an application wait for anything but an order that holds. Without an agent, with one that hangs, or
 * between two of them, every flow is open. The client is where the truth about its flows is, and says all of it again on
 * every new connection. It is the state machine of the Rust crate {@code protocol}; times are nanoseconds since 1970. It is
 * not synchronised: {@link Session} calls it with its lock held.
 */
final class Client {
    private static final long STEP = 1 << 24;
    private static final int REFUSALS = 64;
    /** What an agent's times are taken for at least and at most. */
    private static final long SHORTEST = 1_000_000;
    private static final long LONGEST = 600_000_000_000L;

    private static final class Coflow {
        final Facts facts;
        /** Other users who may take part. */
        final Set<Integer> granted = new TreeSet<>();
        long sent;
        boolean isKnown;

        Coflow(Facts facts, boolean isKnown) {
            this.facts = facts;
            this.isKnown = isKnown;
        }
    }

    private static final class Flow {
        final CoflowKey key;
        final InetSocketAddress local;
        final InetSocketAddress remote;
        final Long size;
        long sent;
        boolean isIdle;
        long saidSent;
        boolean saidIdle;
        Directive directive = Directive.PLAIN;

        Flow(CoflowKey key, InetSocketAddress local, InetSocketAddress remote, Long size) {
            this.key = key;
            this.local = local;
            this.remote = remote;
            this.size = size;
        }
    }

    private final long name;
    private final IntConsumer directed;
    private boolean isConnected;
    private boolean isWelcomed;
    private long period = 10_000_000;
    private long lease = 500_000_000;
    /** Zero where no lease holds. */
    private long leaseUntil;
    private long saidAt;
    private long nextSerial;
    private int nextRequest;
    private int nextFlow;
    private final Map<CoflowKey, Coflow> coflows = new TreeMap<>();
    private final Map<Integer, Flow> flows = new TreeMap<>();
    private final Map<Integer, Registration> requests = new TreeMap<>();
    private final Map<Integer, CoflowKey> keys = new HashMap<>();
    private final Deque<Wire.Refused> refusals = new ArrayDeque<>();
    private boolean isRefused;
    private List<byte[]> outbox = new ArrayList<>();

    /** A client without an agent; {@code directed} is told of flows that are to be sent in another way. */
    Client(long name, IntConsumer directed) {
        this.name = name;
        this.directed = directed;
    }

    /** An unsigned time of an agent, as far as that is in bounds. */
    private static long bounded(long time, long least) {
        return time < 0 ? LONGEST : Math.min(Math.max(time, least), LONGEST);
    }

    boolean isWelcomed() {
        return isWelcomed;
    }

    /** Whether the agent has refused this connection. */
    boolean isRefused() {
        return isRefused;
    }

    /** What the agent refused lately, the oldest first. */
    List<Wire.Refused> refusals() {
        return List.copyOf(refusals);
    }

    /** Asks for a coflow; its key appears under the number returned. */
    int register(long now, Registration registration) {
        int request = nextRequest++;
        if (!isConnected) {
            registerAlone(now, request, registration);
            return request;
        }
        requests.put(request, registration);
        if (isWelcomed) {
            sayRegister(request, registration);
        }
        return request;
    }

    /** Whether a request has its key. */
    boolean hasKey(int request) {
        return keys.containsKey(request);
    }

    /** The key of a request, once; null where it has not come. */
    CoflowKey takeKey(int request) {
        return keys.remove(request);
    }

    private void sayRegister(int request, Registration registration) {
        Writer writer = new Writer(1).count(request).number(registration.parents().size());
        registration.parents().forEach(writer::key);
        writer.optional(nanos(registration.deadline())).optional(registration.size());
        writer.flag(registration.background()).number(registration.weight());
        outbox.add(writer.name(registration.name()).frame());
    }

    /** A key from a counter that no other part of the system uses: odd numbers, never below the time. */
    private void registerAlone(long now, int request, Registration registration) {
        long start = Long.remainderUnsigned(name * 2, STEP) | 1;
        long least = Math.max(now, nextSerial);
        long serial = least + Long.remainderUnsigned(start - least, STEP);
        nextSerial = serial + 1;
        CoflowKey key = CoflowKey.of(serial, registration.parents());
        Long deadline = nanos(registration.deadline());
        Long until = deadline == null ? null : Long.valueOf(now + deadline);
        Facts facts = new Facts(
            now, until, registration.size(), registration.background(), registration.weight(), registration.name());
        coflows.put(key, new Coflow(facts, false));
        keys.put(request, key);
    }

    private static Long nanos(Duration duration) {
        return duration == null ? null : Long.valueOf(duration.toNanos());
    }

    /** A connection begins to carry a flow; returns its number. */
    int open(CoflowKey key, InetSocketAddress local, InetSocketAddress remote, Long size) {
        // Numbers come around after four thousand million; no two open flows have the same.
        while (flows.containsKey(nextFlow)) {
            nextFlow++;
        }
        int number = nextFlow++;
        Flow flow = new Flow(key, local, remote, size);
        flows.put(number, flow);
        join(key);
        if (isWelcomed) {
            sayOpen(number, flow);
        }
        return number;
    }

    private void sayOpen(int number, Flow flow) {
        Writer writer = new Writer(4).count(number).key(flow.key).address(flow.local).address(flow.remote);
        outbox.add(writer.optional(flow.size).number(flow.sent).frame());
    }

    private void join(CoflowKey key) {
        Coflow coflow = coflows.computeIfAbsent(key, absent -> new Coflow(null, false));
        if (isWelcomed && !coflow.isKnown) {
            coflow.isKnown = true;
            outbox.add(new Writer(2).key(key).facts(coflow.facts).number(coflow.sent).frame());
            coflow.granted.forEach(user -> sayGrant(key, user));
        }
    }

    /** A flow has sent so many more bytes. */
    void sent(int flow, long more) {
        if (flows.containsKey(flow)) {
            flows.get(flow).sent += more;
        }
    }

    /** Whether the application has nothing to send on a flow at present. */
    void setIdle(int flow, boolean isIdle) {
        if (flows.containsKey(flow)) {
            flows.get(flow).isIdle = isIdle;
        }
    }

    /** A flow is over. */
    void close(int number) {
        Flow over = flows.remove(number);
        if (over == null) {
            return;
        }
        if (coflows.containsKey(over.key)) {
            coflows.get(over.key).sent += over.sent;
        }
        if (isWelcomed) {
            outbox.add(new Writer(6).count(number).number(over.sent).frame());
        }
    }

    /** A flow that goes on has another size than was said: it is a new one to the agent, under the orders of the old. */
    int resize(int number, Long size) {
        Flow old = flows.get(number);
        close(number);
        int again = open(old.key, old.local, old.remote, size);
        flows.get(again).directive = old.directive;
        flows.get(again).isIdle = old.isIdle;
        return again;
    }

    /** Lets another user take part in a coflow of this one, as long as this client takes part. */
    void grant(CoflowKey key, int user) {
        join(key);
        if (coflows.get(key).granted.add(user) && isWelcomed) {
            sayGrant(key, user);
        }
    }

    private void sayGrant(CoflowKey key, int user) {
        outbox.add(new Writer(7).key(key).count(user).frame());
    }

    /** Ends this client's part in a coflow. */
    void unregister(CoflowKey key) {
        if (coflows.remove(key) != null && isWelcomed) {
            outbox.add(new Writer(3).key(key).frame());
        }
    }

    /** How a flow is to be sent at {@code now}: an order holds no longer than the lease, whoever keeps the time. */
    Directive directive(int number, long now) {
        Flow flow = flows.get(number);
        return flow == null || leaseUntil <= now ? Directive.PLAIN : flow.directive;
    }

    /** There is a connection to an agent. */
    void handleConnected() {
        isConnected = true;
        isRefused = false;
        outbox = new ArrayList<>();
        outbox.add(new Writer(0).number(Wire.PROTOCOL).number(name).frame());
    }

    /** The connection is gone; who waits for a key gets one. */
    void handleDisconnected(long now) {
        isConnected = false;
        isWelcomed = false;
        outbox = new ArrayList<>();
        fallBack();
        coflows.values().forEach(coflow -> coflow.isKnown = false);
        requests.forEach((request, registration) -> registerAlone(now, request, registration));
        requests.clear();
    }

    /** The agent says something. */
    void handleMessage(long now, Wire.Message message) {
        if (isWelcomed) {
            leaseUntil = now + lease;
        }
        if (message instanceof Wire.Welcome welcome) {
            period = bounded(welcome.period(), SHORTEST);
            lease = bounded(welcome.lease(), 4 * SHORTEST);
            isWelcomed = true;
            leaseUntil = now + lease;
            sayEverything();
        } else if (message instanceof Wire.Registered registered) {
            if (requests.remove(registered.request()) != null) {
                coflows.put(registered.key(), new Coflow(registered.facts(), true));
                keys.put(registered.request(), registered.key());
            }
        } else if (message instanceof Wire.Direct direct && flows.containsKey(direct.flow())) {
            flows.get(direct.flow()).directive = direct.directive();
            directed.accept(direct.flow());
        } else if (message instanceof Wire.Refused refused) {
            noteRefusal(now, refused);
        }
    }

    private void noteRefusal(long now, Wire.Refused refused) {
        refusals.addLast(refused);
        if (refusals.size() > REFUSALS) {
            refusals.removeFirst();
        }
        isRefused |= refused.isConnection();
        Registration registration = refused.request() == null ? null : requests.remove(refused.request());
        if (registration != null) {
            registerAlone(now, refused.request(), registration);
        }
    }

    /** A new agent knows nothing. */
    private void sayEverything() {
        requests.forEach(this::sayRegister);
        List.copyOf(coflows.keySet()).forEach(this::join);
        flows.forEach((number, flow) -> {
            flow.saidSent = flow.sent;
            flow.saidIdle = false;
            sayOpen(number, flow);
        });
    }

    private void fallBack() {
        leaseUntil = 0;
        flows.forEach((number, flow) -> {
            if (!flow.directive.equals(Directive.PLAIN)) {
                flow.directive = Directive.PLAIN;
                directed.accept(number);
            }
        });
    }

    /** Does what has come due. Returns whether the agent has been silent for a whole lease: close its connection. */
    boolean handleTimeout(long now) {
        boolean isSilent = leaseUntil != 0 && leaseUntil <= now;
        if (isSilent) {
            fallBack();
        }
        if (isWelcomed && !flows.isEmpty() && saidAt + period <= now) {
            saidAt = now;
            flows.forEach((number, flow) -> {
                if (flow.saidSent != flow.sent || flow.saidIdle != flow.isIdle) {
                    flow.saidSent = flow.sent;
                    flow.saidIdle = flow.isIdle;
                    outbox.add(new Writer(5).count(number).number(flow.sent).flag(flow.isIdle).frame());
                }
            });
        }
        return isSilent;
    }

    /** Nanoseconds until {@link #handleTimeout} has something to do, at most 200 ms. */
    long timeout(long now) {
        long due = now + 200_000_000;
        due = leaseUntil == 0 ? due : Math.min(due, leaseUntil);
        due = isWelcomed && !flows.isEmpty() ? Math.min(due, saidAt + period) : due;
        return Math.max(due - now, 0);
    }

    /** What is to be sent to the agent. */
    List<byte[]> takeMessages() {
        List<byte[]> said = outbox;
        outbox = new ArrayList<>();
        return said;
    }
}
