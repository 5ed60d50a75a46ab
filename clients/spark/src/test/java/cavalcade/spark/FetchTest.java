package cavalcade.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.junit.jupiter.api.Test;

class FetchTest {
    private final List<String> brought = new ArrayList<>();
    private final List<List<String>> over = new ArrayList<>();
    private final Fetch fetch = new Fetch(new String[] {"a", "b", "c"}, new BlockFetchingListener() {
        @Override
        public void onBlockFetchSuccess(String block, ManagedBuffer data) {
            brought.add(block);
        }

        @Override
        public void onBlockFetchFailure(String block, Throwable cause) {
            throw new AssertionError("Spark's own client says what fails");
        }
    }, failed -> over.add(List.of(failed)));

    @Test
    void theConnectionIsGivenBackOnceWhenAllHaveCome() {
        List.of("a", "b", "c", "c").forEach(block -> fetch.onBlockFetchSuccess(block, null));
        assertEquals(List.of("a", "b", "c"), brought);
        assertEquals(List.of(List.of()), over);
    }

    @Test
    void whatFailsIsLeftToSparksOwnClientTogether() {
        fetch.onBlockFetchFailure("b", new IOException("reset"));
        fetch.onBlockFetchSuccess("b", null);
        fetch.onBlockFetchFailure("a", new IOException("reset"));
        assertEquals(List.of(), over);
        fetch.onBlockFetchSuccess("c", null);
        assertEquals(List.of("c"), brought, "a block that has failed is not brought twice");
        assertEquals(List.of(List.of("b", "a")), over);
    }
}
