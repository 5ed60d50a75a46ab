package cavalcade;

import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.util.Objects;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A connection whose bytes are a flow of a coflow. Closing or dropping it ends the flow and the connection.
 *
 * <p>What one call writes is in one piece, whichever other threads write.
 */
public final class CoflowOutputStream extends OutputStream {
    private final Session session;
    private final Socket socket;
    private final OutputStream out;
    private final Carriage carriage;
    private final ReentrantLock turn = new ReentrantLock();
    private final Pace pace = new Pace();

    CoflowOutputStream(Session session, Socket socket, OutputStream out, Carriage carriage) {
        this.session = session;
        this.socket = socket;
        this.out = out;
        this.carriage = carriage;
    }

    @Override
    public void write(int single) throws IOException {
        write(new byte[] {(byte) single}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        Objects.checkFromIndexSize(offset, length, bytes.length);
        turn.lock();
        try {
            int end = offset + length;
            while (offset < end) {
                Directive directive = session.waitForTurn(carriage, socket, pace);
                int piece = Pace.piece(directive, end - offset);
                out.write(bytes, offset, piece);
                pace.wrote(directive, piece);
                session.sent(carriage, piece);
                offset += piece;
            }
        } finally {
            turn.unlock();
        }
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

    @Override
    public void flush() throws IOException {
        out.flush();
    }

    /** Ends the flow and returns its socket, which stays open and is as it was before. */
    public Socket detach() {
        session.end(carriage, true);
        return socket;
    }

    @Override
    public void close() throws IOException {
        session.end(carriage, false);
        socket.close();
    }
}
