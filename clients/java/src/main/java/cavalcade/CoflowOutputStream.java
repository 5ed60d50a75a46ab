package cavalcade;

import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.util.concurrent.locks.LockSupport;

/** A connection whose bytes are a flow of a coflow. Closing it ends the flow and the connection. */
public final class CoflowOutputStream extends OutputStream {
    private static final int PIECE = 256 << 10;
    /** A paced flow is written in pieces of so many milliseconds. */
    private static final long PACED_MS = 4;

    private final Session session;
    private final Socket socket;
    private final OutputStream out;
    private final int flow;
    /** When the next piece of a paced flow is due. */
    private long due = System.nanoTime();

    CoflowOutputStream(Session session, Socket socket, int flow) throws IOException {
        this.session = session;
        this.socket = socket;
        this.out = socket.getOutputStream();
        this.flow = flow;
    }

    @Override
    public void write(int single) throws IOException {
        write(new byte[] {(byte) single}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        int end = offset + length;
        while (offset < end) {
            Directive directive = session.waitForGate(flow);
            int piece = Math.min(end - offset, PIECE);
            if (directive.gate() == Directive.Gate.PACED) {
                piece = (int) Math.min(piece, Math.max(1_448, directive.rate() / 8_000 * PACED_MS));
                waitUntilDue(directive.rate(), piece);
            }
            out.write(bytes, offset, piece);
            session.sent(flow, piece);
            offset += piece;
        }
    }

    private void waitUntilDue(long rate, int piece) {
        long now = System.nanoTime();
        if (due - now > 0) {
            LockSupport.parkNanos(due - now);
        }
        // What was not used is lost, but for one piece.
        long begin = Math.max(due - now, -PACED_MS * 1_000_000) + now;
        due = begin + (long) (piece * 8e9 / Math.max(rate, 1));
    }

    /** Says that there is nothing to send until the next write, so that others may use what this flow does not. */
    public void rest() {
        session.rest(flow);
    }

    /** How it is to be sent at present. */
    public Directive directive() {
        return session.directive(flow);
    }

    /** Whether the kernel carries orders out for it: the connection was handed over to an enforcer. */
    public boolean isInKernel() {
        return session.isInKernel(flow);
    }

    @Override
    public void flush() throws IOException {
        out.flush();
    }

    @Override
    public void close() throws IOException {
        session.closeFlow(flow);
        socket.close();
    }
}
