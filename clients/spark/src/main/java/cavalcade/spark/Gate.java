package cavalcade.spark;

import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelPromise;
import io.netty.channel.FileRegion;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.concurrent.ScheduledFuture;
import java.nio.channels.ClosedChannelException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;

/**
 * What a connection sends, as the orders of its flow have it. All of it runs on the connection's event loop, and nothing waits.
 *
 * <p>Messages leave in pieces, of which one at a time is with TCP: with whole blocks there, up to 4 MB a port were on their way when a
 * gate shut. The pieces of a message stay together, and messages in order, so all that is behind a message that waits does too.
 *
 * <p>A gate never fails a job. A reader that waits gives its connection up, and in the end its job, when no whole message has come for
 * its patience; pieces do not count. So a message that has been first for a quarter of that leaves whatever the orders are, all of it.
 * Where the kernel carries them out, the flow ends for that long.
 */
final class Gate {
    /** Bytes that are sent at once. */
    static final int PIECE = 64 << 10;
    /** A message up to so long, as answers without blocks are, needs no turn. */
    static final int SHORT = 1 << 10;

    private static final int MOST_AT_ONCE = 16;

    /** A message, with who waits for it to be sent. */
    private record Held(Object message, ChannelPromise promise) {}

    private final ChannelHandlerContext out;
    private final long holdMs;
    private final Deque<Held> held = new ArrayDeque<>();
    private Turn turn;
    /** Bytes of the first message that TCP has taken. */
    private long done;
    /** A piece is with TCP. */
    private boolean isSending;
    /** The first message has waited for long enough. */
    private boolean isForced;
    private ScheduledFuture<?> hold;
    private ScheduledFuture<?> look;
    private boolean isOver;
    private boolean isPumping;

    /** {@code out} is where messages go to; {@code holdMs} is the longest that one of them is held for. */
    Gate(ChannelHandlerContext out, long holdMs) {
        this.out = out;
        this.holdMs = holdMs;
    }

    /** Obeys from now on; null for no orders. Ends the flow that there was. */
    void obey(Turn orders) {
        if (turn != null && turn != orders) {
            turn.close();
        }
        turn = isOver && orders != null ? null : orders;
        if (isOver && orders != null) {
            orders.close();
        }
        pump();
    }

    boolean obeys() {
        return turn != null;
    }

    /** Whether nothing is held or with TCP. */
    boolean isEmpty() {
        return held.isEmpty() && !isSending;
    }

    /** Sends a message when it is its turn. */
    void send(Object message, ChannelPromise promise) {
        if (isOver) {
            ReferenceCountUtil.release(message);
            promise.tryFailure(new ClosedChannelException());
            return;
        }
        if (turn != null && held.isEmpty()) {
            turn.idle(false);
        }
        held.addLast(new Held(message, promise));
        pump();
    }

    /** There are other orders, or time has passed. */
    void pump() {
        if (isPumping) {
            return;
        }
        isPumping = true;
        try {
            int turns = 0;
            while (!isOver && !isSending && !held.isEmpty() && sendSome(held.peekFirst())) {
                if (++turns == MOST_AT_ONCE) {
                    // Its event loop has other connections.
                    out.executor().execute(this::pump);
                    return;
                }
            }
        } finally {
            isPumping = false;
        }
    }

    /** Sends what may go of the first message; whether to go on at once. */
    private boolean sendSome(Held first) {
        if (!(first.message() instanceof FileRegion region)) {
            pass(first);
            return true;
        }
        long left = region.count() - done;
        if (left <= 0) {
            end(first, null);
            return true;
        }
        int wanted = (int) Math.min(left, PIECE);
        int piece = turn == null || isForced || region.count() <= SHORT ? wanted : turn.allowance(wanted);
        if (hold == null) {
            hold = out.executor().schedule(this::force, holdMs, TimeUnit.MILLISECONDS);
        }
        if (piece == 0) {
            lookLater();
            return false;
        }
        sendPiece(first, region, piece);
        return true;
    }

    private void pass(Held first) {
        held.removeFirst();
        out.writeAndFlush(first.message(), first.promise());
        rest();
    }

    private void sendPiece(Held first, FileRegion region, int size) {
        isSending = true;
        out.writeAndFlush(new Piece(region, size)).addListener(sent -> {
            isSending = false;
            if (isOver) {
                return;
            }
            if (!sent.isSuccess()) {
                end(first, sent.cause());
                // Half a message cannot be taken back.
                out.close();
                return;
            }
            if (turn != null) {
                turn.sent(size);
            }
            done += size;
            if (done >= region.count()) {
                end(first, null);
            }
            pump();
        });
    }

    /** A message is over, and the clock of the next begins. */
    private void end(Held first, Throwable failure) {
        held.removeFirst();
        isForced = false;
        done = 0;
        cancel(hold);
        hold = null;
        ReferenceCountUtil.release(first.message());
        if (failure == null) {
            first.promise().trySuccess();
        } else {
            first.promise().tryFailure(failure);
        }
        rest();
    }

    private void rest() {
        if (held.isEmpty() && turn != null) {
            turn.idle(true);
        }
    }

    private void force() {
        isForced = true;
        if (turn != null && turn.isInKernel()) {
            turn.close();
            turn = null;
        }
        pump();
    }

    private void lookLater() {
        cancel(look);
        look = out.executor().schedule(this::pump, Math.max(turn.delay(), 100_000), TimeUnit.NANOSECONDS);
    }

    private static void cancel(ScheduledFuture<?> timer) {
        if (timer != null) {
            timer.cancel(false);
        }
    }

    /** The connection is gone. */
    void end() {
        if (isOver) {
            return;
        }
        isOver = true;
        cancel(hold);
        cancel(look);
        if (turn != null) {
            turn.close();
            turn = null;
        }
        for (Held rest = held.pollFirst(); rest != null; rest = held.pollFirst()) {
            ReferenceCountUtil.release(rest.message());
            rest.promise().tryFailure(new ClosedChannelException());
        }
    }
}
