package cavalcade.spark;

import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelDuplexHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelPipeline;
import io.netty.channel.ChannelPromise;
import io.netty.util.concurrent.ScheduledFuture;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.spark.network.protocol.ChunkFetchRequest;
import org.apache.spark.network.protocol.RpcRequest;
import org.apache.spark.network.protocol.StreamRequest;
import org.apache.spark.network.shuffle.protocol.AbstractFetchShuffleBlocks;
import org.apache.spark.network.shuffle.protocol.BlockTransferMessage;
import org.apache.spark.network.shuffle.protocol.OpenBlocks;

/**
 * A connection that an executor has accepted. The reader's request names the shuffle, so nothing but Spark's own protocol is spoken.
 * Blocks wait until the driver has named the coflow of the shuffle, which takes about as long as the reader takes to ask for them, and
 * for 50 ms at most. A connection that rests is no flow any more: the next request may
 * be of another shuffle, or of a later stage that reads the same one.
 *
 * <p>A connection on which two shuffles are asked for at once is not a reader's of ours but the one that stock Spark shares. Orders for
 * one shuffle would hold the other up, so it is left alone from then on.
 */
final class Serving {
    /** Opens the flow of a shuffle, and hands it over on the event loop; null where there is none. */
    interface Opening {
        void open(ChannelHandlerContext out, int shuffle, Runnable changed, Consumer<Turn> opened);
    }

    /** A connection without requests for so long rests. */
    static final long REST_MS = 500;
    /** Blocks wait for so long at most until their coflow is known. */
    static final long ASK_MS = 50;
    private static final byte OPEN_BLOCKS = 0;
    private static final byte FETCH_SHUFFLE_BLOCKS = 9;

    private final Opening opening;
    private final long holdMs;
    private Gate gate;
    private ChannelHandlerContext out;
    /** The shuffle that is asked for, −1 before the first. */
    private int shuffle = -1;
    /** Counts the flows that were asked for: an answer to an older question is none. */
    private int asked;
    private boolean isAsking;
    private boolean isShared;
    /** Requests without an answer. */
    private int open;
    private ScheduledFuture<?> rest;
    /** Since the last look whether it rests. */
    private boolean isUsed;

    /** Until it is known. */
    private static final Turn NOT_YET = new Turn() {
        @Override
        public int allowance(int wanted) {
            return 0;
        }

        @Override
        public long delay() {
            return TimeUnit.MILLISECONDS.toNanos(ASK_MS);
        }

        @Override
        public void sent(int bytes) {
            // What a message forced out is no flow's.
        }

        @Override
        public void idle(boolean isIdle) {
            // Nobody asks.
        }

        @Override
        public boolean isInKernel() {
            return false;
        }

        @Override
        public void close() {
            // There is nothing to close.
        }
    };

    private Serving(Opening opening, long holdMs) {
        this.opening = opening;
        this.holdMs = holdMs;
    }

    /** Behind the decoder, to see what is asked for; before the encoder, to see bytes, which ciphers come after. */
    static void install(ChannelPipeline pipeline, Opening opening, long holdMs) {
        if (pipeline.get("handler") != null && pipeline.get("encoder") != null) {
            Serving serving = new Serving(opening, holdMs);
            pipeline.addBefore("encoder", "cavalcade-out", serving.new Out());
            pipeline.addBefore("handler", "cavalcade-in", serving.new In());
        }
    }

    private final class In extends ChannelInboundHandlerAdapter {
        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            if (message instanceof RpcRequest request) {
                handleRequest(shuffleOf(request));
            } else if (message instanceof ChunkFetchRequest || message instanceof StreamRequest) {
                open++;
            }
            context.fireChannelRead(message);
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            asked++;
            gate.end();
            context.fireChannelInactive();
        }
    }

    private final class Out extends ChannelDuplexHandler {
        @Override
        public void handlerAdded(ChannelHandlerContext context) {
            out = context;
            gate = new Gate(context, holdMs);
        }

        @Override
        public void handlerRemoved(ChannelHandlerContext context) {
            gate.end();
        }

        @Override
        public void write(ChannelHandlerContext context, Object message, ChannelPromise promise) {
            open = Math.max(0, open - 1);
            if (shuffle < 0 || isShared && gate.isEmpty()) {
                context.write(message, promise);
                return;
            }
            gate.send(message, promise);
            restLater();
        }
    }

    /** The shuffle of a request, −1 where it is none for blocks of one. */
    static int shuffleOf(RpcRequest request) {
        try {
            ByteBuffer body = request.body().nioByteBuffer();
            if (!body.hasRemaining() || body.get(body.position()) != OPEN_BLOCKS
                    && body.get(body.position()) != FETCH_SHUFFLE_BLOCKS) {
                return -1;
            }
            BlockTransferMessage message = BlockTransferMessage.Decoder.fromByteBuffer(body);
            return message instanceof AbstractFetchShuffleBlocks fetch ? fetch.shuffleId
                : message instanceof OpenBlocks blocks ? ReaderClient.shuffleOf(blocks.blockIds) : -1;
        } catch (IOException | RuntimeException other) {
            // Spark's handler knows what to say to it.
            return -1;
        }
    }

    private void handleRequest(int wanted) {
        boolean isBusy = open > 0 || !gate.isEmpty();
        open++;
        if (isShared || wanted < 0 && shuffle < 0) {
            return;
        }
        if (wanted != shuffle && shuffle >= 0 && isBusy) {
            isShared = true;
            asked++;
            gate.obey(null);
        } else if (wanted >= 0) {
            boolean isNew = wanted != shuffle;
            shuffle = wanted;
            if (isNew || !gate.obeys() && !isAsking) {
                ask();
            }
        }
    }

    private void ask() {
        int question = ++asked;
        isAsking = true;
        gate.obey(NOT_YET);
        out.executor().schedule(() -> {
            if (isAsking && question == asked) {
                gate.obey(null);
            }
        }, ASK_MS, TimeUnit.MILLISECONDS);
        opening.open(out, shuffle, gate::pump, turn -> {
            boolean isCurrent = question == asked;
            isAsking &= !isCurrent;
            if (isCurrent) {
                gate.obey(turn);
                restLater();
            } else if (turn != null) {
                turn.close();
            }
        });
    }

    /** Ends the flow once nothing has been asked for or sent for a while. */
    private void restLater() {
        isUsed = true;
        if (rest == null && gate.obeys()) {
            rest = out.executor().schedule(this::restNow, REST_MS, TimeUnit.MILLISECONDS);
        }
    }

    private void restNow() {
        rest = null;
        if (isUsed || !gate.isEmpty()) {
            restLater();
            isUsed = false;
        } else {
            asked++;
            gate.obey(null);
        }
    }
}
