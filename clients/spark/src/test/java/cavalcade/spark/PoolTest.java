package cavalcade.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

class PoolTest {
    private int opened;
    private boolean isRefused;
    private boolean isAwaited;
    private Runnable whileItOpens = () -> {};
    private long now;
    private final Set<Object> closed = new HashSet<>();
    private final Pool<Object> pool = new Pool<>(new Pool.Connections<>() {
        @Override
        public Object open(String host, int port) throws IOException {
            if (isRefused) {
                throw new IOException("refused");
            }
            opened++;
            whileItOpens.run();
            return new Object();
        }

        @Override
        public boolean isAlive(Object connection) {
            return !closed.contains(connection);
        }

        @Override
        public boolean isAwaited(Object connection) {
            return isAwaited;
        }

        @Override
        public void close(Object connection) {
            closed.add(connection);
        }
    }, () -> now);

    @Test
    void aConnectionCarriesOneShuffleAtATime() throws Exception {
        var first = pool.lend("a", 1, 7);
        assertSame(first.connection, pool.lend("a", 1, 7).connection, "fetches of one shuffle share it");
        var other = pool.lend("a", 1, 8);
        assertNotSame(first.connection, other.connection);
        assertNotSame(first.connection, pool.lend("b", 1, 7).connection, "each peer has its own");
        pool.giveBack(first);
        assertNotSame(first.connection, pool.lend("a", 1, 9).connection, "one fetch of it is not over");
        pool.giveBack(first);
        assertSame(first.connection, pool.lend("a", 1, 10).connection, "lent on, not made");
        assertEquals(4, opened);
    }

    @Test
    void aBrokenConnectionIsNotLentAgain() throws Exception {
        var lease = pool.lend("a", 1, 7);
        closed.add(lease.connection);
        assertNotSame(lease.connection, pool.lend("a", 1, 7).connection);
        pool.giveBack(lease);
    }

    @Test
    void whatIsRefusedLeavesNothingBehind() throws Exception {
        isRefused = true;
        assertThrows(IOException.class, () -> pool.lend("a", 1, 7));
        isRefused = false;
        pool.lend("a", 1, 7);
        assertEquals(1, opened);
    }

    @Test
    void whatRestsIsClosed() throws Exception {
        var lease = pool.lend("a", 1, 7);
        now = Pool.REST_NS + 1;
        isAwaited = true;
        pool.sweep();
        assertEquals(Set.of(), closed, "an answer is waited for");
        isAwaited = false;
        pool.sweep();
        assertEquals(Set.of(lease.connection), closed, "even where a fetch was never given back");
    }

    @Test
    void nothingWaitsForAConnectionThatIsMadeButFetchesOfItsShuffle() throws Exception {
        var before = pool.lend("a", 1, 7);
        List<Object> same = new CopyOnWriteArrayList<>();
        Thread other = new Thread(() -> same.add(lendAnyway(8)));
        whileItOpens = () -> {
            whileItOpens = () -> {};
            other.start();
            // As an event loop does, which may be the one that has to make the connection.
            Thread loop = new Thread(() -> {
                pool.giveBack(before);
                pool.sweep();
            });
            loop.start();
            joinAnyway(loop);
            assertFalse(loop.isAlive(), "it waits for the connection that it has to make");
        };
        var made = pool.lend("a", 1, 8);
        other.join();
        assertEquals(List.of(made.connection), same);
        assertEquals(2, opened);
    }

    private Object lendAnyway(int shuffle) {
        try {
            return pool.lend("a", 1, shuffle).connection;
        } catch (IOException | InterruptedException refused) {
            return refused;
        }
    }

    private static void joinAnyway(Thread thread) {
        try {
            thread.join(10_000);
        } catch (InterruptedException never) {
            throw new IllegalStateException(never);
        }
    }
}
