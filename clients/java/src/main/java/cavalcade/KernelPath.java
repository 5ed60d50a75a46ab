package cavalcade;

import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * Flows that the kernel carries: where an enforcer is at work beside the agent, connections are handed over to it.
 *
 * <p>A line is written for each, and the flow is plain TCP until the enforcer has read it. What it refuses, and everything
 * once it is gone, the session carries itself. Where a flow ends before its connection, the programs in the kernel are told by an
 * option of the connection, and set it back as it was. Java tells a program neither the descriptor nor the cookie of a socket, so a
 * line names a connection by its ends. It is not synchronised: {@link Session} calls it with its lock held.
 */
final class KernelPath {
    private static final long RETRY_REFUSED_NS = 100_000_000;
    /** The longest time for an enforcer to answer before nothing more is handed over to it. */
    private static final long PATIENCE_NS = 200_000_000;

    /** What is the session's again, and whether the enforcer has told the agent what it has sent so far. */
    record Returned(Carriage carriage, boolean isTold) {}

    /** What was asked for and when. */
    private record Asked(Carriage carriage, long at) {}

    private Enforcer enforcer;
    private final Set<Carriage> handed = new LinkedHashSet<>();
    /** In the order of the answers. */
    private final Deque<Asked> asked = new ArrayDeque<>();
    private long refusedAt = System.nanoTime() - RETRY_REFUSED_NS;

    /** There is an enforcer. */
    void found(Enforcer enforcer) {
        this.enforcer = enforcer;
    }

    /** Hands a connection over; returns whether that could be asked for. */
    boolean handOver(Carriage carriage) {
        long now = System.nanoTime();
        boolean hangs = !asked.isEmpty() && now - asked.peekFirst().at() > PATIENCE_NS;
        if (enforcer == null || hangs || now - refusedAt < RETRY_REFUSED_NS) {
            return false;
        }
        String sends = carriage.size == null ? "" : " sends=" + carriage.size;
        String ends = text(carriage.local) + ">" + text(carriage.remote);
        try {
            if (!enforcer.say("connection=" + ends + " coflow=" + carriage.key + sends + "\n")) {
                // It has much to read.
                return false;
            }
        } catch (IOException over) {
            // Who listens to it sees the end, and takes everything back.
            hangUp();
            return false;
        }
        asked.addLast(new Asked(carriage, now));
        handed.add(carriage);
        carriage.handOver();
        return true;
    }

    /** An end, as {@code 10.0.0.1:4711} or {@code [2001:db8:0:0:0:0:0:1]:4711}: without an interface, which a name may have. */
    private static String text(InetSocketAddress end) {
        String host = end.getAddress().getHostAddress().split("%", 2)[0];
        return (end.getAddress() instanceof Inet6Address ? "[" + host + "]" : host) + ":" + end.getPort();
    }

    /** What was handed over. */
    List<Carriage> handed() {
        return List.copyOf(handed);
    }

    /** A stream is over, and its connection {@code stays}; what was written to it is kept until the enforcer has answered. */
    void close(Carriage carriage, boolean stays) {
        carriage.isOver = true;
        carriage.stays = stays;
        if (!isAsked(carriage)) {
            forget(carriage);
        }
    }

    private void forget(Carriage carriage) {
        handed.remove(carriage);
        if (carriage.stays) {
            carriage.release();
        }
    }

    /** Whether the enforcer has yet to answer for it. */
    private boolean isAsked(Carriage carriage) {
        return asked.stream().anyMatch(one -> one.carriage() == carriage);
    }

    /** Takes an answer in. Returns what is refused, null where nothing is. */
    Carriage answer(boolean isTaken) {
        Asked first = asked.pollFirst();
        if (first == null) {
            return null;
        }
        Carriage meant = first.carriage();
        if (isTaken) {
            if (meant.isOver) {
                forget(meant);
            }
            return null;
        }
        handed.remove(meant);
        if (!meant.isOver) {
            refusedAt = System.nanoTime();
        }
        return meant;
    }

    /** The enforcer is gone. Returns all that was handed over. */
    List<Returned> lose() {
        enforcer = null;
        List<Returned> lost = new ArrayList<>();
        handed.forEach(carriage -> lost.add(new Returned(carriage, !isAsked(carriage))));
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
