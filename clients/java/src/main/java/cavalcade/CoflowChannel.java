package cavalcade;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectableChannel;
import java.nio.channels.SocketChannel;
import java.nio.channels.WritableByteChannel;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A channel whose bytes are a flow of a coflow, for programs with a {@link java.nio.channels.Selector}. Closing or dropping it ends
 * the flow and closes the connection; to keep that, {@link #detach} it.
 *
 * <p>On a channel that does not block a write takes nothing while the flow may not send, though the channel itself could be written:
 * wait until {@link #gate} can be read, and then for the channel; who also waits to read sees the other end go. On one that blocks a write waits, and what one call writes is in
 * one piece, whichever other threads write.
 */
public final class CoflowChannel implements WritableByteChannel {
    private final Session session;
    private final SocketChannel channel;
    private final Carriage carriage;
    private final ReentrantLock turn = new ReentrantLock();
    private final Pace pace = new Pace();

    CoflowChannel(Session session, SocketChannel channel, Carriage carriage) {
        this.session = session;
        this.channel = channel;
        this.carriage = carriage;
    }

    @Override
    public int write(ByteBuffer bytes) throws IOException {
        turn.lock();
        try {
            int before = bytes.remaining();
            if (!channel.isBlocking()) {
                writeNow(bytes);
            } else {
                while (bytes.hasRemaining()) {
                    writePiece(bytes, session.waitForTurn(carriage, channel.socket(), pace));
                }
            }
            return before - bytes.remaining();
        } finally {
            turn.unlock();
        }
    }

    /** Writes some if the flow may send at once; else its gate shows when it may. */
    private void writeNow(ByteBuffer bytes) throws IOException {
        Directive directive = session.wishToSend(carriage);
        long left = pace.left(directive);
        if (left > 0) {
            session.showGate(carriage, false);
            CompletableFuture.delayedExecutor(left, TimeUnit.NANOSECONDS)
                .execute(() -> session.showGate(carriage, true));
        } else if (directive.gate() != Directive.Gate.OFF) {
            writePiece(bytes, directive);
        }
    }

    private void writePiece(ByteBuffer bytes, Directive directive) throws IOException {
        int end = bytes.limit();
        bytes.limit(bytes.position() + Pace.piece(directive, bytes.remaining()));
        try {
            int written = channel.write(bytes);
            pace.wrote(directive, written);
            session.sent(carriage, written);
        } finally {
            bytes.limit(end);
        }
    }

    /**
     * A channel that can be read while the flow may send. Only select on it: who reads it or closes it takes the news from others. It
     * closes with this channel.
     */
    public SelectableChannel gate() throws IOException {
        if (!channel.isOpen()) {
            throw new ClosedChannelException();
        }
        return session.gate(carriage).source();
    }

    /** The connection, for reading and for its options. */
    public SocketChannel channel() {
        return channel;
    }

    /** Says that there is nothing to send until the next write, so that others may use what this flow does not. */
    public void rest() {
        session.rest(carriage);
    }

    /** How it is to be sent at present. */
    public Directive directive() {
        return session.directive(carriage);
    }

    /** Whether the kernel carries orders out for it: the connection was handed over to an enforcer. */
    public boolean isInKernel() {
        return session.isInKernel(carriage);
    }

    /** Ends the flow and returns its channel, which stays open and is as it was before. */
    public SocketChannel detach() {
        carriage.isDetached = true;
        session.end(carriage, true);
        session.closeGate(carriage);
        return channel;
    }

    @Override
    public boolean isOpen() {
        return channel.isOpen();
    }

    @Override
    public void close() throws IOException {
        session.end(carriage, false);
        session.closeGate(carriage);
        channel.close();
    }
}
