package cavalcade;

import java.io.IOException;
import java.net.InetSocketAddress;

/**
 * A flow over a connection that a program writes to by itself, such as one of an event loop. No thread waits for it.
 *
 * <p>Before it writes the program asks for an {@link #allowance}; where that is 0 it asks again when its connection is told that
 * something {@link Connection#changed}, and at the latest after {@link #delay}: an agent that hangs says nothing, and its orders end
 * with its lease. What was written it says by {@link #sent}, and by {@link #idle} whether there is more to write.
 *
 * <p>One thread at a time writes; everything but {@link #sent} and {@link #allowance} may be called by any thread. A flow that is
 * dropped without {@link #close} stays until its coflow or session ends.
 */
public final class Flow implements AutoCloseable {
    /** What a session needs to know of a connection. It may call from a thread of its own, with a lock held: return at once. */
    public interface Connection {
        /** The own end. */
        InetSocketAddress local();

        /** The other end. */
        InetSocketAddress remote();

        /** The flow may have to be sent in another way than before. */
        void changed();

        /** The byte that packets are marked with (IP_TOS). Only with it and its setter do packets get the class of their flow. */
        default int mark() throws IOException {
            throw new UnsupportedOperationException("no mark");
        }

        /** Marks packets from here on. */
        default void mark(int mark) throws IOException {
            throw new UnsupportedOperationException("no mark");
        }

        /**
         * Sets TCP_KEEPIDLE. Only with it an enforcer in the kernel learns that a flow is over whose connection stays. No kernel
         * accepts the value, so its error is as good.
         */
        default void keepIdle(int seconds) throws IOException {
            throw new UnsupportedOperationException("no keep-alive");
        }
    }

    private final Session session;
    private final Carriage carriage;
    private final Pace pace = new Pace();
    private Directive last = Directive.PLAIN;

    Flow(Session session, Carriage carriage) {
        this.session = session;
        this.carriage = carriage;
    }

    /** How it is to be sent at present. */
    public Directive directive() {
        return session.directive(carriage);
    }

    /** How many of {@code wanted} bytes may be written now: 0 while its gate is shut or the next piece of a paced flow is not due. */
    public int allowance(int wanted) {
        Arguments.length(wanted);
        last = directive();
        boolean waits = last.gate() == Directive.Gate.OFF || pace.left(last) > 0;
        return waits ? 0 : Pace.piece(last, wanted);
    }

    /** Nanoseconds after which to ask for an {@link #allowance} again where there was none. */
    public long delay() {
        return last.gate() == Directive.Gate.OFF ? Session.LOOK_NS : Math.max(pace.left(last), 1);
    }

    /** So many bytes were written, allowed or not. */
    public void sent(int bytes) {
        Arguments.length(bytes);
        pace.wrote(last, bytes);
        session.sent(carriage, bytes);
    }

    /** Says whether there is nothing to send at present, so that others may use what this flow does not. */
    public void idle(boolean isIdle) {
        session.idle(carriage, isIdle);
    }

    /** Says how many bytes are left to send, null where that is not known. The kernel is not told. */
    public void resize(Long left) {
        session.resize(carriage, Arguments.size(left));
    }

    /** Whether the kernel carries orders out for it: the connection was handed over to an enforcer. */
    public boolean isInKernel() {
        return session.isInKernel(carriage);
    }

    /** Ends the flow. Its connection is as it was before, and may carry another. */
    @Override
    public void close() {
        session.end(carriage, true);
    }
}
