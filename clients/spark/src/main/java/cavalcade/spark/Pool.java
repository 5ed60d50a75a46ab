package cavalcade.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;

/**
 * Connections of readers, of which each is lent to one shuffle at a time. The fetches of a shuffle from a peer share one; when the
 * last of them is over, the next shuffle gets it. So no shuffle waits behind another, and few connections are made.
 *
 * @param <C> what a connection is
 */
final class Pool<C> {
    /** What may be done with a connection. */
    interface Connections<C> {
        C open(String host, int port) throws IOException, InterruptedException;

        boolean isAlive(C connection);

        /** Whether an answer is waited for. */
        boolean isAwaited(C connection);

        void close(C connection);
    }

    private record Peer(String host, int port) {}

    /** A connection that a fetch may use until it gives it back. */
    static final class Lease<C> {
        /** Null while it is made. */
        C connection;
        private final List<Lease<C>> ofPeer;
        private int shuffle;
        private int fetches;
        private long usedAt;

        private Lease(List<Lease<C>> ofPeer) {
            this.ofPeer = ofPeer;
        }
    }

    /** A connection that nobody uses is closed after so long. */
    static final long REST_NS = 10_000_000_000L;

    private final Connections<C> connections;
    private final LongSupplier nanos;
    private final Map<Peer, List<Lease<C>>> all = new ConcurrentHashMap<>();

    Pool(Connections<C> connections, LongSupplier nanos) {
        this.connections = connections;
        this.nanos = nanos;
    }

    /**
     * Lends a connection to a fetch of a shuffle, and makes one where none is free. Other fetches of the shuffle wait for it meanwhile.
     *
     * <p>Nothing is held while a connection is made: event loops give leases back, and one of them may have to make it.
     */
    Lease<C> lend(String host, int port, int shuffle) throws IOException, InterruptedException {
        List<Lease<C>> ofPeer = all.computeIfAbsent(new Peer(host, port), absent -> new ArrayList<>());
        Lease<C> lent;
        synchronized (ofPeer) {
            ofPeer.removeIf(lease -> lease.connection != null && !connections.isAlive(lease.connection));
            lent = find(ofPeer, shuffle);
            while (lent != null && lent.connection == null) {
                ofPeer.wait();
                lent = find(ofPeer, shuffle);
            }
            boolean isThere = lent != null;
            if (!isThere) {
                lent = new Lease<>(ofPeer);
                ofPeer.add(lent);
            }
            lent.shuffle = shuffle;
            lent.fetches++;
            lent.usedAt = nanos.getAsLong();
            if (isThere) {
                return lent;
            }
        }
        make(lent, host, port);
        return lent;
    }

    private void make(Lease<C> lent, String host, int port) throws IOException, InterruptedException {
        C made = null;
        try {
            made = connections.open(host, port);
        } finally {
            synchronized (lent.ofPeer) {
                lent.connection = made;
                if (made != null && !lent.ofPeer.contains(lent)) {
                    // The pool was closed meanwhile.
                    connections.close(made);
                }
                if (made == null) {
                    lent.ofPeer.remove(lent);
                }
                lent.ofPeer.notifyAll();
            }
        }
    }

    private static <C> Lease<C> find(List<Lease<C>> ofPeer, int shuffle) {
        Lease<C> free = null;
        for (Lease<C> lease : ofPeer) {
            if (lease.fetches > 0 && lease.shuffle == shuffle) {
                return lease;
            }
            free = lease.fetches == 0 ? lease : free;
        }
        return free;
    }

    /** A fetch is over. */
    void giveBack(Lease<C> lease) {
        synchronized (lease.ofPeer) {
            lease.fetches = Math.max(0, lease.fetches - 1);
            lease.usedAt = nanos.getAsLong();
        }
    }

    /** Closes what was not used for a while; a fetch that was never given back does not keep its connection. */
    void sweep() {
        long now = nanos.getAsLong();
        for (List<Lease<C>> ofPeer : all.values()) {
            synchronized (ofPeer) {
                ofPeer.removeIf(lease -> {
                    boolean isOld = lease.connection != null && now - lease.usedAt > REST_NS
                        && !connections.isAwaited(lease.connection);
                    if (isOld) {
                        connections.close(lease.connection);
                    }
                    return isOld;
                });
            }
        }
    }

    /** Closes everything. */
    void close() {
        for (List<Lease<C>> ofPeer : all.values()) {
            synchronized (ofPeer) {
                ofPeer.stream().filter(lease -> lease.connection != null).forEach(lease -> connections.close(lease.connection));
                ofPeer.clear();
            }
        }
    }
}
