package cavalcade.spark;

import cavalcade.CoflowKey;
import cavalcade.Flow;
import cavalcade.Session;
import io.netty.channel.Channel;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;

/**
 * The flows of an executor. With the last one of a coflow the executor leaves it: a coflow ends when nobody takes part any more, and
 * the driver's word alone would not do.
 */
final class Flows {
    private final Session session;
    /** How many of each coflow there are. */
    private final Map<CoflowKey, Integer> open = new HashMap<>();

    Flows(Session session) {
        this.session = session;
    }

    /** Makes a connection a flow; null where it is closed by now. */
    synchronized Turn open(Channel channel, CoflowKey key, Runnable changed) {
        try {
            Turn turn = new OfFlow(session.flow(new NettyConnection(channel, changed), key, null), () -> leave(key));
            open.merge(key, 1, Integer::sum);
            return turn;
        } catch (IOException | RuntimeException closed) {
            return null;
        }
    }

    private synchronized void leave(CoflowKey key) {
        if (open.merge(key, -1, Integer::sum) <= 0) {
            open.remove(key);
            session.unregister(key);
        }
    }

    private record OfFlow(Flow flow, Runnable over) implements Turn {
        @Override
        public int allowance(int wanted) {
            return flow.allowance(wanted);
        }

        @Override
        public long delay() {
            return flow.delay();
        }

        @Override
        public void sent(int bytes) {
            flow.sent(bytes);
        }

        @Override
        public void idle(boolean isIdle) {
            flow.idle(isIdle);
        }

        @Override
        public boolean isInKernel() {
            return flow.isInKernel();
        }

        @Override
        public void close() {
            flow.close();
            over.run();
        }
    }
}
