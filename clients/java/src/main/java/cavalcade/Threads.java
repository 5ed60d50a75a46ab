package cavalcade;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.List;

/**
 * The threads that keep a session: one reads what the agent says, one writes and keeps the time, one looks for the enforcer that
 * connections are handed over to.
 *
 * <p>Whatever goes wrong in them is logged and tried again: a session without its threads would be plain TCP for good.
 */
final class Threads {
    private static final long RETRY_MS = 50;
    /** Where the agent refuses the connection, or no enforcer is there. */
    private static final long RETRY_REFUSED_MS = 1_000;

    private final Session session;
    private final List<Path> places;
    /** Where the agent answered last. */
    private volatile Path place;

    Threads(Session session, List<Path> places) {
        this.session = session;
        this.places = places;
        place = places.get(0);
    }

    void start() {
        start(this::keepConnected);
        start(this::keepEnforcer);
    }

    private static Thread start(Runnable work) {
        Thread thread = new Thread(work, "cavalcade-client");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static void log(RuntimeException error) {
        System.getLogger("cavalcade").log(Level.ERROR, "a connection of the session ends, and is tried again", error);
    }

    /** Sleeps; who interrupts this thread does not end it. */
    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException interrupted) {
            // It is the session's own, and has nothing to give up.
        }
    }

    /** Looks for the enforcer beside the agent until the session is closed. */
    private void keepEnforcer() {
        while (true) {
            try (Enforcer enforcer = Enforcer.beside(place)) {
                synchronized (session.lock) {
                    if (session.isClosed) {
                        return;
                    }
                    session.kernel.found(enforcer);
                }
                enforcer.listen(session::handleAnswer);
            } catch (IOException none) {
                // There is none at present.
            } catch (UnsupportedOperationException | LinkageError unable) {
                // Nothing says who listens there: this is not Linux, or a Java without jdk.net.
                return;
            } catch (RuntimeException error) {
                log(error);
            }
            synchronized (session.lock) {
                session.loseEnforcer();
                if (session.isClosed) {
                    return;
                }
            }
            pause(RETRY_REFUSED_MS);
        }
    }

    /** Looks for the agent until the session is closed. */
    private void keepConnected() {
        isSaid = false;
        while (true) {
            synchronized (session.lock) {
                if (session.isClosed) {
                    return;
                }
            }
            boolean hasFailed = false;
            try (SocketChannel channel = connect()) {
                isSaid = false;
                serveConnection(channel);
            } catch (IOException none) {
                // There is none at present.
            } catch (RuntimeException error) {
                log(error);
                hasFailed = true;
            }
            long pause;
            synchronized (session.lock) {
                session.isBroken = false;
                pause = hasFailed || session.client.isRefused() ? RETRY_REFUSED_MS : RETRY_MS;
                session.client.handleDisconnected(Session.now());
                session.lock.notifyAll();
            }
            pause(pause);
        }
    }

    /** Whether it has been said that there is none; the thread's that looks for the agent. */
    private boolean isSaid;

    /** A connection to the agent, at the first place that has one. */
    private SocketChannel connect() throws IOException {
        for (Path one : places) {
            SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
            try {
                channel.connect(UnixDomainSocketAddress.of(one));
                place = one;
                return channel;
            } catch (IOException none) {
                channel.close();
            }
        }
        if (!isSaid) {
            isSaid = true;
            System.getLogger("cavalcade").log(Level.WARNING, "no agent answers at " + places + ": all is plain TCP until one does");
        }
        throw new IOException("no agent");
    }

    /** One connection, from its hello to its end. */
    private void serveConnection(SocketChannel channel) throws IOException {
        synchronized (session.lock) {
            session.client.handleConnected();
        }
        Thread listening = start(() -> listen(channel));
        try {
            talk(channel);
        } finally {
            channel.close();
            try {
                listening.join();
            } catch (InterruptedException interrupted) {
                // It ends by itself.
            }
        }
    }

    private void listen(SocketChannel channel) {
        try {
            DataInputStream in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(channel)));
            Wire.listen(in, message -> {
                synchronized (session.lock) {
                    session.client.handleMessage(Session.now(), message);
                    session.lock.notifyAll();
                }
            });
        } catch (IOException over) {
            // Who writes closes it.
        } catch (RuntimeException error) {
            log(error);
        }
        synchronized (session.lock) {
            session.isBroken = true;
            session.lock.notifyAll();
        }
    }

    /**
     * Writes what is to be sent, and keeps the time. An agent that reads nothing blocks it; streams that wait for a gate check
     * the lease themselves.
     */
    private void talk(SocketChannel channel) throws IOException {
        long connected = System.nanoTime();
        while (true) {
            List<byte[]> said;
            synchronized (session.lock) {
                Client client = session.client;
                boolean isSilent = client.handleTimeout(Session.now());
                boolean hangs = !client.isWelcomed() && System.nanoTime() - connected > Session.PATIENCE_NS;
                if (isSilent || hangs || session.isBroken || session.isClosed) {
                    return;
                }
                said = client.takeMessages();
                if (said.isEmpty()) {
                    session.pause(Math.max(client.timeout(Session.now()), 100_000));
                }
            }
            for (byte[] frame : said) {
                ByteBuffer buffer = ByteBuffer.wrap(frame);
                while (buffer.hasRemaining()) {
                    channel.write(buffer);
                }
            }
        }
    }
}
