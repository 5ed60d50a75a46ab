package cavalcade;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketOption;
import java.net.StandardSocketOptions;
import jdk.net.ExtendedSocketOptions;

/**
 * What a session knows of a connection that carries a flow: its ends, its coflow, the bytes of the flow (null where that is not
 * known), and the byte that its packets are marked with. It is not synchronised: {@link Session} calls it with its lock held.
 *
 * <p>The mark is read before it is set: where it is not as the session left it, the application has changed it meanwhile, and what
 * it set then is its own. A session does not keep a connection open: it refers to its socket weakly, so one that is dropped closes
 * as any other does.
 */
final class Carriage {
    /** Is no time of TCP_KEEPIDLE: a kernel without the programs of an enforcer refuses it (bpf/enforce.h). */
    private static final int RELEASE = 0x7e1ea5ed;
    /** The kernel keeps the bits of ECN to itself. */
    private static final int DSCP_BITS = 0xfc;

    final CoflowKey key;
    final Long size;
    final InetSocketAddress local;
    final InetSocketAddress remote;
    /** The client's number of the flow while the session carries orders out, else null. */
    Integer flow;
    boolean isInKernel;
    /** Bytes written while the kernel carries it. */
    long sent;
    /** Whether the stream is over; it is then only kept until an enforcer has answered. */
    boolean isOver;
    /** Whether its connection stays when the stream is over. */
    boolean stays;
    /** Whether its stream has given the connection back. */
    volatile boolean isDetached;
    /** What shows an event loop whether the flow may send, null where none asks. */
    Gate gate;

    private final Flow.Connection connection;
    /** What an enforcer sets is not the application's own: that was read before. */
    private final int first;
    private boolean wasInKernel;
    /** What was set, null where nothing was, and the application's own. */
    private Integer ours;
    private int own;

    private Carriage(Flow.Connection connection, CoflowKey key, Long size) throws IOException {
        this.key = key;
        this.size = size;
        this.connection = connection;
        local = connection.local();
        remote = connection.remote();
        first = mark();
    }

    /** That of a connection to which its program writes by itself. */
    static Carriage of(Flow.Connection connection, CoflowKey key, Long size) throws IOException {
        Arguments.key(key);
        Arguments.size(size);
        Arguments.connection(connection);
        return new Carriage(connection, key, size);
    }

    /** That of a connected socket; fails where it is none. */
    static Carriage of(Socket socket, CoflowKey key, Long size) throws IOException {
        Arguments.key(key);
        Arguments.size(size);
        if (socket == null) {
            throw new IllegalArgumentException("expected a connected TCP socket, found null");
        }
        if (socket.isClosed()) {
            throw new SocketException("Socket is closed");
        }
        if (!socket.isConnected()) {
            throw new SocketException("Socket is not connected");
        }
        if (socket.isOutputShutdown()) {
            throw new SocketException("Socket output is shutdown");
        }
        return new Carriage(new OfSocket(socket), key, size);
    }

    private int mark() throws IOException {
        try {
            return connection.mark();
        } catch (UnsupportedOperationException without) {
            return 0;
        }
    }

    /** Whoever waits for an order may look again. */
    void changed() {
        try {
            connection.changed();
        } catch (RuntimeException its) {
            // The program's own; other flows go on.
            System.getLogger("cavalcade").log(System.Logger.Level.ERROR, "a connection fails to take an order", its);
        }
    }

    /** Whether the socket is still there: its connection may outlive the flow. */
    boolean isReachable() {
        return !(connection instanceof OfSocket socket) || socket.isReachable();
    }

    void handOver() {
        isInKernel = true;
        wasInKernel = true;
    }

    /** Has the programs of an enforcer set all as it was before; no program may set the mark of IPv4 on a socket for both families. */
    void release() {
        try {
            connection.keepIdle(RELEASE);
            connection.mark(first);
        } catch (IOException | UnsupportedOperationException | LinkageError gone) {
            // Closed by now, or not handed over any more.
        }
    }

    /** Marks packets, or sets the mark as it was before where {@code wanted} is null. */
    void mark(Integer wanted) {
        if (wanted == null && ours == null) {
            return;
        }
        try {
            int stands = mark();
            if (ours == null) {
                own = wasInKernel ? first : stands;
            } else if (((stands ^ ours) & DSCP_BITS) != 0) {
                own = stands;
            }
            connection.mark(wanted == null ? own : wanted);
            ours = wanted;
        } catch (IOException | UnsupportedOperationException gone) {
            // Closed by now, or a system without: a connection without its class is still a connection.
        }
    }

    /** A socket, as a connection whose options are its own. One that was dropped has none any more. */
    private static final class OfSocket implements Flow.Connection {
        private final WeakReference<Socket> socket;
        private final InetSocketAddress local;
        private final InetSocketAddress remote;

        OfSocket(Socket socket) {
            this.socket = new WeakReference<>(socket);
            local = (InetSocketAddress) socket.getLocalSocketAddress();
            remote = (InetSocketAddress) socket.getRemoteSocketAddress();
        }

        boolean isReachable() {
            Socket there = socket.get();
            return there != null && !there.isClosed();
        }

        private void set(SocketOption<Integer> option, int value) throws IOException {
            Socket there = socket.get();
            if (there != null) {
                there.setOption(option, value);
            }
        }

        @Override
        public InetSocketAddress local() {
            return local;
        }

        @Override
        public InetSocketAddress remote() {
            return remote;
        }

        @Override
        public void changed() {
            // Its stream waits on the session.
        }

        @Override
        public int mark() throws IOException {
            Socket there = socket.get();
            return there == null ? 0 : there.getOption(StandardSocketOptions.IP_TOS);
        }

        @Override
        public void mark(int mark) throws IOException {
            set(StandardSocketOptions.IP_TOS, mark);
        }

        @Override
        public void keepIdle(int seconds) throws IOException {
            set(ExtendedSocketOptions.TCP_KEEPIDLE, seconds);
        }
    }
}
