package cavalcade;

import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Flows that the kernel carries: where an enforcer is at work beside the agent, connections are handed over to it.
 *
 * <p>A line is written for each, and the flow is plain TCP until the enforcer has read it. What it refuses, and everything
 * once it is gone, the session carries itself. Java tells a program neither the descriptor nor the cookie of a socket, so a line
 * names a connection by its ends. Its flows have numbers below zero. It is not synchronised: {@link Session} calls it with its
 * lock held.
 */
final class KernelPath {
    private static final long RETRY_REFUSED_NS = 100_000_000;
    /** The longest time for an enforcer to answer before nothing more is handed over to it. */
    private static final long PATIENCE_NS = 200_000_000;

    /** A connection that was handed over. */
    static final class Handed {
        final Carrier carrier;
        /** Bytes written while the kernel carries it. */
        long sent;
        /** Whether its stream is over: it is only kept until the enforcer has answered. */
        boolean isOver;

        private Handed(Carrier carrier) {
            this.carrier = carrier;
        }
    }

    /** What is the session's again, and whether the enforcer has told the agent what it has sent so far. */
    record Returned(int number, Handed handed, boolean isTold) {}

    private record Asked(int number, long at) {}

    private Enforcer enforcer;
    private final Map<Integer, Handed> handed = new TreeMap<>();
    /** Those asked for and when, in the order of the answers. */
    private final Deque<Asked> asked = new ArrayDeque<>();
    private int next = -1;
    private long refusedAt = System.nanoTime() - RETRY_REFUSED_NS;

    /** There is an enforcer. */
    void found(Enforcer enforcer) {
        this.enforcer = enforcer;
    }

    /** Hands a connection over; returns its number, null where that cannot be asked for. */
    Integer handOver(Carrier carrier) {
        long now = System.nanoTime();
        boolean hangs = !asked.isEmpty() && now - asked.peekFirst().at() > PATIENCE_NS;
        if (enforcer == null || hangs || now - refusedAt < RETRY_REFUSED_NS) {
            return null;
        }
        try {
            if (!enforcer.say(line(carrier))) {
                // It has much to read.
                return null;
            }
        } catch (IOException over) {
            // Who listens to it sees the end, and takes everything back.
            hangUp();
            return null;
        }
        int number = next--;
        asked.addLast(new Asked(number, now));
        handed.put(number, new Handed(carrier));
        return number;
    }

    private static String line(Carrier carrier) {
        String sends = carrier.size() == null ? "" : " sends=" + carrier.size();
        String ends = text(carrier.local()) + ">" + text(carrier.remote());
        return "connection=" + ends + " coflow=" + carrier.key() + sends + "\n";
    }

    /** An end, as {@code 10.0.0.1:4711} or {@code [2001:db8:0:0:0:0:0:1]:4711}: without an interface, which a name may have. */
    private static String text(InetSocketAddress end) {
        String host = end.getAddress().getHostAddress().split("%", 2)[0];
        return (end.getAddress() instanceof Inet6Address ? "[" + host + "]" : host) + ":" + end.getPort();
    }

    /** Whether the kernel carries this flow, or is asked to. */
    boolean carries(int number) {
        return handed.containsKey(number);
    }

    /** More bytes were written to a flow. */
    void sent(int number, long more) {
        if (handed.containsKey(number)) {
            handed.get(number).sent += more;
        }
    }

    /** A stream is over; what was written to it is kept until the enforcer has answered. */
    void close(int number) {
        if (isAsked(number) && handed.containsKey(number)) {
            handed.get(number).isOver = true;
        } else {
            handed.remove(number);
        }
    }

    /** Whether the enforcer has yet to answer for it: numbers follow each other. */
    private boolean isAsked(int number) {
        return !asked.isEmpty() && number <= asked.peekFirst().number();
    }

    /** Takes an answer in. Returns what is refused, null where nothing is. */
    Returned answer(boolean isTaken) {
        Asked first = asked.pollFirst();
        Handed meant = first == null ? null : handed.get(first.number());
        if (meant == null || isTaken && !meant.isOver) {
            return null;
        }
        handed.remove(first.number());
        if (isTaken) {
            return null;
        }
        if (!meant.isOver) {
            refusedAt = System.nanoTime();
        }
        return new Returned(first.number(), meant, false);
    }

    /** The enforcer is gone. Returns all that was handed over. */
    List<Returned> lose() {
        enforcer = null;
        List<Returned> lost = new ArrayList<>();
        handed.forEach((number, one) -> lost.add(new Returned(number, one, !isAsked(number))));
        handed.clear();
        asked.clear();
        return lost;
    }

    /** Ends the connection to the enforcer; all that was handed over comes back then. */
    void hangUp() {
        if (enforcer != null) {
            enforcer.hangUp();
        }
    }
}
