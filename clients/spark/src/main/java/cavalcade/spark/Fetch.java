package cavalcade.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.shuffle.BlockFetchingListener;

/**
 * The blocks of one fetch over a connection of a shuffle's own. Each is answered once. Those that the connection failed to bring are
 * left to Spark's own client in the end, which knows when to try again and when an executor is dead.
 */
final class Fetch implements BlockFetchingListener {
    private final BlockFetchingListener listener;
    private final Set<String> awaited;
    private final List<String> failed = new ArrayList<>();
    private final Consumer<String[]> over;

    /** {@code over} is called once, when nothing is awaited any more, with what has failed. */
    Fetch(String[] blocks, BlockFetchingListener listener, Consumer<String[]> over) {
        awaited = new HashSet<>(List.of(blocks));
        this.listener = listener;
        this.over = over;
    }

    @Override
    public void onBlockFetchSuccess(String block, ManagedBuffer data) {
        boolean isLast;
        synchronized (this) {
            // Answered before, or Spark's own client has it now.
            if (!awaited.remove(block)) {
                return;
            }
            isLast = awaited.isEmpty();
        }
        try {
            listener.onBlockFetchSuccess(block, data);
        } finally {
            end(isLast);
        }
    }

    @Override
    public void onBlockFetchFailure(String block, Throwable cause) {
        boolean isLast;
        synchronized (this) {
            if (!awaited.remove(block)) {
                return;
            }
            failed.add(block);
            isLast = awaited.isEmpty();
        }
        end(isLast);
    }

    private void end(boolean isLast) {
        if (isLast) {
            over.accept(failed.toArray(new String[0]));
        }
    }
}
