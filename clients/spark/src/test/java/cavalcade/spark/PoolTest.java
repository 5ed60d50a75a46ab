package cavalcade.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

class PoolTest {
    private int opened;
    private boolean isRefused;
    private boolean isAwaited;
    private long now;
    private final Set<Object> closed = new HashSet<>();
    private final Pool<Object> pool = new Pool<>(new Pool.Connections<>() {
        @Override
        public Object open(String host, int port) throws IOException {
            if (isRefused) {
                throw new IOException("refused");
            }
            opened++;
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
}
