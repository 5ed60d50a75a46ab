import cavalcade.CoflowChannel;
import cavalcade.CoflowKey;
import cavalcade.CoflowOutputStream;
import cavalcade.Flow;
import cavalcade.Registration;
import cavalcade.Session;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NotYetConnectedException;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/** What a program can get wrong in Java, and what it is told: the right kind of exception, with a text. Prints how much was tried. */
public final class Misuse {
    private static final CoflowKey KEY = new CoflowKey(7, 0, 7);
    private static int tried;

    private interface Call {
        void run() throws Exception;
    }

    private static void fails(Class<? extends Exception> kind, String text, Call call) {
        tried++;
        try {
            call.run();
        } catch (Exception error) {
            boolean isIt = kind.isInstance(error) && (text.isEmpty() || String.valueOf(error.getMessage()).contains(text));
            if (!isIt) {
                throw new AssertionError("expected " + kind.getSimpleName() + " with '" + text + "'", error);
            }
            return;
        }
        throw new AssertionError("nothing failed, expected " + kind.getSimpleName() + " with '" + text + "'");
    }

    public static void main(String[] arguments) throws Exception {
        Class<IllegalArgumentException> invalid = IllegalArgumentException.class;
        fails(invalid, "path of an agent's socket, found null", () -> new Session(null));
        fails(invalid, "a path of 108 bytes", () -> new Session(Path.of("x".repeat(108))));
        fails(invalid, "a path of 0 bytes", () -> new Session(Path.of("")));
        fails(invalid, "is no key of a coflow", () -> new CoflowKey(7, -1, 7));
        fails(invalid, "'7.65536.7' is no key", () -> new CoflowKey(7, 65_536, 7));
        for (String text : Arrays.asList("", "7", "7.0", "-7.0.7", "7.0.7 ", "7.99999999999.7", "18446744073709551616.0.7")) {
            fails(invalid, "is no key of a coflow", () -> CoflowKey.parse(text));
        }
        fails(invalid, "found null", () -> CoflowKey.parse(null));
        fails(invalid, "found null", () -> Registration.after((CoflowKey) null));
        fails(invalid, "found null", () -> new Registration(Arrays.asList(KEY, null), null, null, false, 1, null));
        fails(invalid, "a deadline of -0.5 s", () ->
            new Registration(null, Duration.ofMillis(-500), null, false, 1, null));
        fails(invalid, "a deadline of", () ->
            new Registration(null, Duration.ofSeconds(Long.MAX_VALUE), null, false, 1, null));
        fails(invalid, "a size of -1 bytes", () -> new Registration(List.of(), null, -1L, false, 1, null));
        fails(invalid, "a weight of 0", () -> new Registration(List.of(), null, null, false, 0, null));
        new Registration(null, Duration.ZERO, 0L, true, 0xffff_ffffL, "sort-7");
        try (Session session = new Session(Path.of("/nonexistent/agent.sock"));
                ServerSocket server = new ServerSocket(0)) {
            ofSession(session, server);
        }
        System.out.println(tried);
    }

    private static void ofSession(Session session, ServerSocket server) throws Exception {
        Class<IllegalArgumentException> invalid = IllegalArgumentException.class;
        fails(invalid, "expected a Registration, found null", () -> session.register(null));
        fails(invalid, "expected a Registration, found null", () -> session.tryRegister(null));
        fails(invalid, "expected a time to wait, found null", () -> session.waitReady(null));
        session.waitReady(Duration.ofSeconds(Long.MIN_VALUE));
        fails(invalid, "found null", () -> session.unregister(null));
        fails(invalid, "found null", () -> session.grant(null, 7));
        fails(invalid, "user -1: expected 0 to 4294967294", () -> session.grant(KEY, -1));
        fails(invalid, "expected a connected TCP socket, found null", () -> session.stream(null, KEY, null));
        fails(IOException.class, "Socket is not connected", () -> session.stream(new Socket(), KEY, null));
        Socket socket = new Socket(server.getInetAddress(), server.getLocalPort());
        fails(invalid, "found null", () -> session.stream(socket, null, null));
        fails(invalid, "a size of -1 bytes", () -> session.stream(socket, KEY, -1L));
        CoflowOutputStream out = session.stream(socket, KEY, null);
        fails(IndexOutOfBoundsException.class, "", () -> out.write(new byte[7], 5, 3));
        fails(IndexOutOfBoundsException.class, "", () -> out.write(new byte[7], -1, 3));
        out.write(new byte[7]);
        out.close();
        out.close();
        fails(IOException.class, "", () -> out.write(7));
        fails(IOException.class, "Socket is closed", () -> session.stream(socket, KEY, null));
        Socket half = new Socket(server.getInetAddress(), server.getLocalPort());
        half.shutdownOutput();
        fails(IOException.class, "Socket output is shutdown", () -> session.stream(half, KEY, null));
        fails(invalid, "expected a connected channel, found null", () -> session.channel(null, KEY, null));
        SocketChannel channel = SocketChannel.open();
        fails(NotYetConnectedException.class, "", () -> session.channel(channel, KEY, null));
        channel.connect(server.getLocalSocketAddress());
        fails(invalid, "a size of -1 bytes", () -> session.channel(channel, KEY, -1L));
        CoflowChannel stream = session.channel(channel, KEY, null);
        stream.write(ByteBuffer.allocate(7));
        stream.close();
        stream.close();
        fails(ClosedChannelException.class, "", () -> stream.write(ByteBuffer.allocate(7)));
        fails(ClosedChannelException.class, "", stream::gate);
        fails(IOException.class, "Socket is closed", () -> session.channel(channel, KEY, null));
        ofFlow(session);
        // An interrupt is kept, and no call of the session is cut off by it.
        Thread.currentThread().interrupt();
        session.register(new Registration());
        tried++;
        if (!Thread.interrupted()) {
            throw new AssertionError("the interrupt was lost");
        }
        session.close();
        session.close();
        CoflowOutputStream plain = session.stream(
            new Socket(server.getInetAddress(), server.getLocalPort()), session.register(new Registration()), null);
        plain.write(7);
        plain.close();
    }

    private static void ofFlow(Session session) throws Exception {
        Class<IllegalArgumentException> invalid = IllegalArgumentException.class;
        fails(invalid, "expected a connection, found null", () -> session.flow(null, KEY, null));
        fails(invalid, "expected a connection with two ends", () -> session.flow(new Ends(null), KEY, null));
        Ends ends = new Ends(new InetSocketAddress("127.0.0.1", 7));
        fails(invalid, "found null", () -> session.flow(ends, null, null));
        fails(invalid, "a size of -1 bytes", () -> session.flow(ends, KEY, -1L));
        Flow flow = session.flow(ends, KEY, 7L);
        fails(invalid, "a length of -1 bytes", () -> flow.allowance(-1));
        fails(invalid, "a length of -1 bytes", () -> flow.sent(-1));
        fails(invalid, "a size of -1 bytes", () -> flow.resize(-1L));
        if (flow.allowance(7) != 7 || flow.isInKernel()) {
            throw new AssertionError("without an agent all may be sent");
        }
        // What its program is told may fail, and that is its own.
        flow.close();
        flow.close();
        flow.sent(7);
        flow.resize(7L);
    }

    private record Ends(InetSocketAddress remote) implements Flow.Connection {
        @Override
        public InetSocketAddress local() {
            return new InetSocketAddress("127.0.0.1", 4711);
        }

        @Override
        public void changed() {
            throw new IllegalStateException("a program's own fault");
        }
    }
}
