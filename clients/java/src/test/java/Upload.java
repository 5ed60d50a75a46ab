import cavalcade.CoflowKey;
import cavalcade.CoflowOutputStream;
import cavalcade.Registration;
import cavalcade.Session;
import java.net.Socket;
import java.nio.file.Path;
import java.time.Duration;

/**
 * Uploads over HTTP by the client library, once the kernel carries the stream: {@code Upload AGENT_SOCKET NAME BYTES HOST PORT}.
 * Says "open" then, and at the end whether it is "kernel" or "library" that carries it.
 */
public final class Upload {
    private Upload() {}

    public static void main(String[] arguments) throws Exception {
        int bytes = Integer.parseInt(arguments[2]);
        try (Session session = new Session(Path.of(arguments[0]))) {
            if (!session.waitReady(Duration.ofSeconds(60))) {
                throw new IllegalStateException("there is no agent");
            }
            Socket socket;
            CoflowOutputStream out;
            while (true) {
                CoflowKey coflow = session.register(new Registration());
                socket = new Socket(arguments[3], Integer.parseInt(arguments[4]));
                out = session.stream(socket, coflow, null);
                if (out.isInKernel()) {
                    break;
                }
                // The library may not have found the enforcer yet.
                out.close();
                session.unregister(coflow);
                Thread.sleep(50);
            }
            System.out.println("open");
            out.write(("PUT /" + arguments[1] + " HTTP/1.1\r\nContent-Length: " + bytes + "\r\n\r\n").getBytes());
            out.write(new byte[bytes]);
            socket.getInputStream().read();
            System.out.println(out.isInKernel() ? "kernel" : "library");
            System.in.read();
        }
    }
}
