package cavalcade.spark;

import cavalcade.Session;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import java.lang.reflect.Field;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.network.netty.NettyBlockTransferService;
import org.apache.spark.network.server.TransportServer;

/**
 * An executor: what it fetches goes over connections of each shuffle's own, and what it serves as the agent orders.
 *
 * <p>Both need what Spark keeps to itself. All of that is looked for before anything is put in its place; an executor of which
 * something is missing stays as it was.
 */
final class ExecutorSide implements AutoCloseable {
    private final Session session;
    private final Settings settings;
    private final Keys keys;
    private final ScheduledExecutorService timer;
    private final ExecutorService again;
    private final Flows flows;

    private ExecutorSide(PluginContext plugin, Settings settings) {
        this.settings = settings;
        ThreadFactory threads = work -> {
            Thread thread = new Thread(work, "cavalcade-spark");
            thread.setDaemon(true);
            return thread;
        };
        session = Session.at(settings.sockets());
        flows = new Flows(session);
        timer = Executors.newSingleThreadScheduledExecutor(threads);
        again = Executors.newCachedThreadPool(threads);
        keys = Keys.of(plugin, timer);
    }

    static ExecutorSide start(PluginContext plugin, Settings settings) {
        Channel listener = listener(SparkEnv.get());
        ExecutorSide side = new ExecutorSide(plugin, settings);
        try {
            Pool<?> pool = ReaderClient.install(SparkEnv.get(), side.again).pool;
            side.timer.scheduleWithFixedDelay(pool::sweep, 1, 1, TimeUnit.SECONDS);
            listener.pipeline().addFirst("cavalcade", new Tap(side::open, settings.patienceMs() / 4));
            return side;
        } catch (RuntimeException | LinkageError missing) {
            side.close();
            throw missing;
        }
    }

    /** The socket at which an executor serves blocks. */
    private static Channel listener(SparkEnv env) {
        Object service = env.blockManager().blockTransferService();
        if (!(service instanceof NettyBlockTransferService)) {
            throw new IllegalStateException("its blocks are transferred by " + service.getClass().getName());
        }
        // Scala has a name of its own for the field.
        for (Field field : NettyBlockTransferService.class.getDeclaredFields()) {
            if (field.getType() == TransportServer.class) {
                TransportServer server = Scala.value(Scala.field(NettyBlockTransferService.class, field.getName()), service,
                    TransportServer.class);
                return Scala.value(Scala.field(TransportServer.class, "channelFuture"), server, ChannelFuture.class).channel();
            }
        }
        throw new IllegalStateException("this Spark has no server in " + NettyBlockTransferService.class.getName());
    }

    /** At the listener: what it accepts is served by a {@link Serving}. */
    private static final class Tap extends ChannelInboundHandlerAdapter {
        private final Serving.Opening opening;
        private final long holdMs;

        Tap(Serving.Opening opening, long holdMs) {
            this.opening = opening;
            this.holdMs = holdMs;
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            if (message instanceof Channel accepted) {
                accepted.pipeline().addLast("cavalcade-install", new ChannelInboundHandlerAdapter() {
                    @Override
                    public void channelActive(ChannelHandlerContext child) {
                        // By now Spark has built its pipeline.
                        Serving.install(child.pipeline(), opening, holdMs);
                        child.fireChannelActive();
                        child.pipeline().remove(this);
                    }
                });
            }
            context.fireChannelRead(message);
        }
    }

    /** Opens the flow of a connection once the driver has named the coflow of its shuffle. */
    private void open(ChannelHandlerContext out, int shuffle, Runnable changed, Consumer<Turn> opened) {
        try {
            keys.of(shuffle).thenAccept(key ->
                inLoop(out, () -> opened.accept(key == null ? null : flows.open(out.channel(), key, () -> inLoop(out, changed)))));
        } catch (RejectedExecutionException over) {
            opened.accept(null);
        }
    }

    private static void inLoop(ChannelHandlerContext out, Runnable work) {
        try {
            out.executor().execute(work);
        } catch (RejectedExecutionException over) {
            // The executor ends.
        }
    }

    @Override
    public String toString() {
        return "orders come from the agent at " + settings.sockets() + ", and hold a block for "
            + settings.patienceMs() / 4 + " ms at most";
    }

    @Override
    public void close() {
        timer.shutdownNow();
        again.shutdownNow();
        session.close();
    }
}
