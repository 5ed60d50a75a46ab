package cavalcade;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.UserPrincipal;
import java.util.function.Consumer;
import jdk.net.ExtendedSocketOptions;

/** A connection to the enforcer beside an agent. One thread listens, others say something and never wait. */
final class Enforcer implements AutoCloseable {
    private final SocketChannel channel;
    private final Selector selector;

    private Enforcer(SocketChannel channel) throws IOException {
        this.channel = channel;
        selector = Selector.open();
        channel.configureBlocking(false);
        channel.register(selector, SelectionKey.OP_READ);
    }

    /** Connects to the enforcer beside the agent at this path, and greets it; fails where there is none that may be trusted. */
    static Enforcer beside(Path agent) throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            channel.connect(UnixDomainSocketAddress.of(agent + ".enforcer"));
            if (!isTrusted(channel, agent)) {
                throw new IOException("another user listens in the enforcer's place");
            }
            Enforcer enforcer = new Enforcer(channel);
            enforcer.say("library\n");
            return enforcer;
        } catch (IOException | RuntimeException none) {
            channel.close();
            throw none;
        }
    }

    /** Whether who listens is root, this user, or who owns the agent's socket: others may have put their own there. */
    private static boolean isTrusted(SocketChannel channel, Path agent) throws IOException {
        UserPrincipal peer = channel.getOption(ExtendedSocketOptions.SO_PEERCRED).user();
        UserPrincipal root = FileSystems.getDefault().getUserPrincipalLookupService().lookupPrincipalByName("0");
        UserPrincipal own = Files.getOwner(Path.of("/proc/self"));
        return peer.equals(root) || peer.equals(own) || peer.equals(Files.getOwner(agent));
    }

    /** Says all of it, or nothing where there is no room for it at present. Returns whether it has. */
    boolean say(String line) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(line.getBytes(StandardCharsets.US_ASCII));
        channel.write(bytes);
        if (bytes.position() > 0 && bytes.hasRemaining()) {
            throw new IOException("a line was cut off");
        }
        return !bytes.hasRemaining();
    }

    /** Hands on each line that is heard until the connection ends. */
    void listen(Consumer<String> hear) throws IOException {
        ByteBuffer chunk = ByteBuffer.allocate(8 << 10);
        StringBuilder heard = new StringBuilder();
        while (true) {
            selector.select();
            if (channel.read(chunk) < 0) {
                return;
            }
            heard.append(StandardCharsets.US_ASCII.decode(chunk.flip()));
            chunk.clear();
            for (int end = heard.indexOf("\n"); end >= 0; end = heard.indexOf("\n")) {
                hear.accept(heard.substring(0, end));
                heard.delete(0, end + 1);
            }
            selector.selectedKeys().clear();
        }
    }

    /** Ends the connection; who listens is told. */
    void hangUp() {
        try {
            channel.close();
        } catch (IOException over) {
            // It was over before.
        }
        selector.wakeup();
    }

    @Override
    public void close() throws IOException {
        // The channel is only closed once it leaves the selector.
        channel.close();
        selector.close();
    }
}
