package cavalcade.spark;

import static org.apache.spark.network.protocol.Messages.message;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOutboundHandlerAdapter;
import io.netty.channel.ChannelPromise;
import io.netty.channel.FileRegion;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.util.ReferenceCountUtil;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class GateTest {
    private static final long HOLD_MS = 1_250;

    private final Orders orders = new Orders();
    private final Network network = new Network();
    private final EmbeddedChannel channel = new EmbeddedChannel(network, new ChannelInboundHandlerAdapter());
    private final Gate gate = new Gate(channel.pipeline().lastContext(), HOLD_MS);

    GateTest() {
        channel.freezeTime();
        gate.obey(orders);
    }

    private ChannelFuture send(Object message) {
        var promise = channel.newPromise();
        gate.send(message, promise);
        return promise;
    }

    /** All that has left since the last look. */
    private byte[] left() {
        channel.runPendingTasks();
        byte[] bytes = network.bytes.toByteArray();
        network.bytes.reset();
        return bytes;
    }

    /** Takes what is written to it, as TCP does. */
    private static final class Network extends ChannelOutboundHandlerAdapter {
        final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        boolean isFull;

        @Override
        public void write(ChannelHandlerContext context, Object message, ChannelPromise promise) throws IOException {
            if (isFull) {
                return;
            }
            if (message instanceof FileRegion region) {
                while (region.transferred() < region.count()) {
                    region.transferTo(Channels.newChannel(bytes), region.transferred());
                }
            } else {
                ByteBuf plain = (ByteBuf) message;
                plain.readBytes(bytes, plain.readableBytes());
            }
            ReferenceCountUtil.release(message);
            promise.setSuccess();
        }
    }

    @Test
    void messagesStayInOnePieceAndInOrder() throws IOException {
        orders.isOpen = false;
        send(message(3 * Gate.PIECE + 7, 1));
        send(Unpooled.wrappedBuffer(new byte[] {5}));
        send(message(Gate.PIECE, 2));
        assertEquals(0, left().length);
        orders.isOpen = true;
        gate.pump();
        byte[] all = left();
        List<Integer> seen = new ArrayList<>();
        for (byte one : all) {
            if (seen.isEmpty() || seen.get(seen.size() - 1) != one) {
                seen.add((int) one);
            }
        }
        assertEquals(8 + 3 * Gate.PIECE + 7 + 1 + 8 + Gate.PIECE, all.length);
        assertEquals(List.of(9, 1, 5, 9, 2), seen);
    }

    @Test
    void aShutGateHoldsUntilItOpens() throws IOException {
        orders.isOpen = false;
        ChannelFuture sent = send(message(Gate.PIECE - 8, 1));
        channel.advanceTimeBy(HOLD_MS - 1, TimeUnit.MILLISECONDS);
        channel.runScheduledPendingTasks();
        assertEquals(0, left().length);
        orders.isOpen = true;
        gate.pump();
        assertEquals(Gate.PIECE, left().length);
        assertEquals(Gate.PIECE, orders.sent);
        assertTrue(sent.isSuccess());
    }

    @Test
    void noMessageIsHeldForLongerThanAQuarterOfTheReadersPatience() throws IOException {
        orders.isOpen = false;
        send(message(4 * Gate.PIECE, 1));
        channel.advanceTimeBy(HOLD_MS, TimeUnit.MILLISECONDS);
        channel.runScheduledPendingTasks();
        assertEquals(8 + 4 * Gate.PIECE, left().length, "all of it, since a reader counts whole messages");
        send(message(Gate.PIECE, 2));
        channel.runPendingTasks();
        assertEquals(0, left().length, "the next one waits for its own time");
    }

    @Test
    void theKernelLosesAFlowThatIsHeldTooLong() throws IOException {
        orders.isInKernel = true;
        network.isFull = true;
        send(message(2 * Gate.PIECE, 1));
        channel.advanceTimeBy(HOLD_MS, TimeUnit.MILLISECONDS);
        channel.runScheduledPendingTasks();
        assertTrue(orders.isClosed);
        assertFalse(gate.obeys());
    }

    @Test
    void anAnswerWithoutBlocksNeedsNoTurn() throws IOException {
        orders.isOpen = false;
        send(message(Gate.SHORT - 8, 1));
        assertEquals(Gate.SHORT, left().length);
    }

    @Test
    void theEndFailsWhatIsHeldAndReleasesIt() throws IOException {
        orders.isOpen = false;
        FileRegion message = message(Gate.PIECE, 1);
        ChannelFuture sent = send(message);
        gate.end();
        assertTrue(sent.isDone() && !sent.isSuccess());
        assertEquals(0, message.refCnt());
        assertTrue(orders.isClosed);
        ChannelFuture late = send(message(Gate.PIECE, 2));
        assertTrue(late.isDone() && !late.isSuccess());
    }

    @Test
    void aFlowRestsOnceAllIsSent() throws IOException {
        send(message(Gate.PIECE - 8, 1));
        left();
        channel.runPendingTasks();
        assertTrue(orders.isIdle);
        orders.isOpen = false;
        send(message(Gate.PIECE, 1));
        assertFalse(orders.isIdle);
    }

    /** Orders that a test gives. */
    static final class Orders implements Turn {
        boolean isOpen = true;
        boolean isIdle;
        boolean isInKernel;
        boolean isClosed;
        int sent;

        @Override
        public int allowance(int wanted) {
            return isOpen ? wanted : 0;
        }

        @Override
        public long delay() {
            return 100_000_000;
        }

        @Override
        public void sent(int bytes) {
            sent += bytes;
        }

        @Override
        public void idle(boolean isIdle) {
            this.isIdle = isIdle;
        }

        @Override
        public boolean isInKernel() {
            return isInKernel;
        }

        @Override
        public void close() {
            isClosed = true;
        }
    }
}
