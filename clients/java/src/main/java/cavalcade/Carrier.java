package cavalcade;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;

/**
 * A connection that carries a flow, with all that it takes to carry it: the byte that its packets were marked with before, its
 * ends, its coflow, and the bytes of the flow, null where that is not known.
 */
record Carrier(
    Socket socket, int ownMark, InetSocketAddress local, InetSocketAddress remote, CoflowKey key, Long size) {
    static Carrier of(Socket socket, CoflowKey key, Long size) throws IOException {
        InetSocketAddress local = (InetSocketAddress) socket.getLocalSocketAddress();
        InetSocketAddress remote = (InetSocketAddress) socket.getRemoteSocketAddress();
        return new Carrier(socket, socket.getOption(StandardSocketOptions.IP_TOS), local, remote, key, size);
    }
}
