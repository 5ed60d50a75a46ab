package cavalcade.spark;

import cavalcade.CoflowKey;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.api.plugin.PluginContext;

/**
 * The coflows of shuffles, as an executor knows them: it asks the driver, which hears of a stage a little later than the stage's first
 * tasks run. What was heard holds for a second, since a later stage that reads the same shuffle is another coflow.
 */
final class Keys {
    /** Asks the driver; nothing that it waits for is an event loop. */
    interface Driver {
        Object ask(String question) throws Exception;
    }

    private static final long HOLDS_MS = 1_000;
    private static final long AGAIN_MS = 20;
    private static final int TRIES = 25;

    private final Driver driver;
    private final ScheduledExecutorService asking;
    private final Map<Integer, CompletableFuture<CoflowKey>> known = new ConcurrentHashMap<>();

    Keys(Driver driver, ScheduledExecutorService asking) {
        this.driver = driver;
        this.asking = asking;
    }

    static Keys of(PluginContext plugin, ScheduledExecutorService asking) {
        return new Keys(plugin::ask, asking);
    }

    /** The key of a shuffle's coflow, null where the driver names none. */
    CompletableFuture<CoflowKey> of(int shuffle) {
        return known.computeIfAbsent(shuffle, absent -> {
            CompletableFuture<CoflowKey> answer = new CompletableFuture<>();
            asking.execute(() -> ask(shuffle, answer, TRIES));
            return answer;
        });
    }

    private void ask(int shuffle, CompletableFuture<CoflowKey> answer, int tries) {
        CoflowKey key = null;
        boolean isHeard = false;
        try {
            Object said = driver.ask(DriverSide.QUESTION + shuffle);
            isHeard = true;
            key = said instanceof String text && !text.isEmpty() ? CoflowKey.parse(text) : null;
        } catch (Exception silent) {
            // A driver that is going, or one of another version: no coflow.
        }
        if (key == null && isHeard && tries > 1) {
            asking.schedule(() -> ask(shuffle, answer, tries - 1), AGAIN_MS, TimeUnit.MILLISECONDS);
            return;
        }
        asking.schedule(() -> known.remove(shuffle, answer), HOLDS_MS, TimeUnit.MILLISECONDS);
        answer.complete(key);
    }
}
