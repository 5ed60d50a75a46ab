package cavalcade.spark;

import com.codahale.metrics.MetricSet;
import java.io.IOException;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import org.apache.spark.SparkEnv;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.client.TransportClient;
import org.apache.spark.network.client.TransportClientFactory;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.network.shuffle.BlockPushingListener;
import org.apache.spark.network.shuffle.BlockStoreClient;
import org.apache.spark.network.shuffle.DownloadFileManager;
import org.apache.spark.network.shuffle.MergeFinalizerListener;
import org.apache.spark.network.shuffle.MergedBlocksMetaListener;
import org.apache.spark.network.shuffle.OneForOneBlockFetcher;
import org.apache.spark.network.shuffle.checksum.Cause;
import org.apache.spark.network.util.TransportConf;
import org.apache.spark.storage.BlockManager;

/**
 * What an executor fetches shuffles with: it lends each a connection of its own from a {@link Pool}. Spark's factory makes them, so
 * authentication and ciphers are as Spark has them. Everything else Spark's own client does, which it stands in front of; and
 * whatever a connection fails to bring.
 */
final class ReaderClient extends BlockStoreClient {
    private static final String SHUFFLE = "shuffle_";

    private final BlockStoreClient stock;
    private final TransportConf transport;
    private final String application;
    private final Executor again;
    final Pool<TransportClient> pool;

    private ReaderClient(BlockStoreClient stock, String application, Executor again) {
        this.stock = stock;
        this.application = application;
        this.again = again;
        transport = Scala.value(Scala.field(BlockStoreClient.class, "transportConf"), stock, TransportConf.class);
        TransportClientFactory factory =
            Scala.value(Scala.field(BlockStoreClient.class, "clientFactory"), stock, TransportClientFactory.class);
        pool = new Pool<>(new OfSpark(factory), System::nanoTime);
    }

    /** Looks for all that it needs, and only then puts itself in the place of the executor's client. */
    static ReaderClient install(SparkEnv env, Executor again) {
        Field field = Scala.field(BlockManager.class, "blockStoreClient");
        BlockManager blocks = env.blockManager();
        BlockStoreClient stock = Scala.value(field, blocks, BlockStoreClient.class);
        ReaderClient own = new ReaderClient(stock, env.conf().getAppId(), again);
        try {
            field.set(blocks, own);
        } catch (IllegalAccessException refused) {
            throw new IllegalStateException(refused);
        }
        return own;
    }

    private record OfSpark(TransportClientFactory factory) implements Pool.Connections<TransportClient> {
        @Override
        public TransportClient open(String host, int port) throws IOException, InterruptedException {
            return factory.createUnmanagedClient(host, port);
        }

        @Override
        public boolean isAlive(TransportClient client) {
            return client.isActive();
        }

        @Override
        public boolean isAwaited(TransportClient client) {
            return client.getHandler().hasOutstandingRequests();
        }

        @Override
        public void close(TransportClient client) {
            client.close();
        }
    }

    /** The shuffle of which all these blocks are, −1 where there is none. */
    static int shuffleOf(String[] blocks) {
        int shuffle = -1;
        for (String block : blocks) {
            int end = block.indexOf('_', SHUFFLE.length());
            if (!block.startsWith(SHUFFLE) || end < 0) {
                return -1;
            }
            int own = number(block.substring(SHUFFLE.length(), end));
            if (own < 0 || shuffle >= 0 && own != shuffle) {
                return -1;
            }
            shuffle = own;
        }
        return shuffle;
    }

    private static int number(String text) {
        return text.matches("[0-9]{1,9}") ? Integer.parseInt(text) : -1;
    }

    @Override
    public void fetchBlocks(String host, int port, String executor, String[] blocks, BlockFetchingListener listener,
            DownloadFileManager files) {
        int shuffle = shuffleOf(blocks);
        Pool.Lease<TransportClient> lease = shuffle < 0 ? null : lend(host, port, shuffle);
        if (lease == null) {
            stock.fetchBlocks(host, port, executor, blocks, listener, files);
            return;
        }
        Fetch fetch = new Fetch(blocks, listener, failed -> {
            pool.giveBack(lease);
            if (failed.length > 0) {
                fetchAgain(() -> stock.fetchBlocks(host, port, executor, failed, listener, files), failed, listener);
            }
        });
        try {
            new OneForOneBlockFetcher(lease.connection, application, executor, blocks, fetch, transport, files).start();
        } catch (RuntimeException broken) {
            for (String block : blocks) {
                fetch.onBlockFetchFailure(block, broken);
            }
        }
    }

    /** Not on the event loop that the failure was heard on: to connect waits. */
    private void fetchAgain(Runnable fetch, String[] failed, BlockFetchingListener listener) {
        try {
            again.execute(fetch);
        } catch (RejectedExecutionException over) {
            for (String block : failed) {
                listener.onBlockFetchFailure(block, over);
            }
        }
    }

    /** Lends a connection, null where none can be made: Spark's own client then says why, in its own time. */
    private Pool.Lease<TransportClient> lend(String host, int port, int shuffle) {
        try {
            return pool.lend(host, port, shuffle);
        } catch (IOException | RuntimeException refused) {
            return null;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return null;
        }
    }

    @Override
    public MetricSet shuffleMetrics() {
        return stock.shuffleMetrics();
    }

    @Override
    public Cause diagnoseCorruption(String host, int port, String executor, int shuffle, long map, int reduce, long checksum,
            String algorithm) {
        return stock.diagnoseCorruption(host, port, executor, shuffle, map, reduce, checksum, algorithm);
    }

    @Override
    public void setAppAttemptId(String attempt) {
        stock.setAppAttemptId(attempt);
    }

    @Override
    public String getAppAttemptId() {
        return stock.getAppAttemptId();
    }

    @Override
    public void getHostLocalDirs(String host, int port, String[] executors, CompletableFuture<Map<String, String[]>> dirs) {
        stock.getHostLocalDirs(host, port, executors, dirs);
    }

    @Override
    public void pushBlocks(String host, int port, String[] ids, ManagedBuffer[] buffers, BlockPushingListener listener) {
        stock.pushBlocks(host, port, ids, buffers, listener);
    }

    @Override
    public void finalizeShuffleMerge(String host, int port, int shuffle, int merge, MergeFinalizerListener listener) {
        stock.finalizeShuffleMerge(host, port, shuffle, merge, listener);
    }

    @Override
    public void getMergedBlockMeta(String host, int port, int shuffle, int merge, int reduce, MergedBlocksMetaListener listener) {
        stock.getMergedBlockMeta(host, port, shuffle, merge, reduce, listener);
    }

    @Override
    public boolean removeShuffleMerge(String host, int port, int shuffle, int merge) {
        return stock.removeShuffleMerge(host, port, shuffle, merge);
    }

    @Override
    public void close() throws IOException {
        pool.close();
        stock.close();
    }
}
