package cavalcade;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;

/**
 * The host's table of connections, from which one vanishes that was reset or has ended in both directions.
 *
 * <p>Java lets a program wait for a socket's end by reading alone, and what comes to read is the application's. So a writer that
 * waits at a gate looks here, now and then: all writers share a look, and looks take a fiftieth of a processor at most. Two looks
 * since the writer began to wait have to miss its connection, since the kernel may skip one that moves in its table.
 */
final class Connections {
    private static final long SPARING = 50;
    private static final long LEAST_NS = 100_000_000;
    /** The states of TCP in which nothing is sent any more: closed, and closing in time. */
    private static final Set<String> OVER = Set.of("06", "07");

    private static Set<String> last = Set.of();
    private static Set<String> before = Set.of();
    private static long looks;
    private static long due = System.nanoTime();

    private final String name;
    private long from = -1;

    /** Watches one connection. */
    Connections(InetSocketAddress local, InetSocketAddress remote) {
        name = name(local) + " " + name(remote);
    }

    /** Whether the connection is known to be gone; false where this host has no such table. */
    boolean isGone() {
        synchronized (Connections.class) {
            from = from < 0 ? looks : from;
            look();
            return looks - from >= 2 && !last.contains(name) && !before.contains(name);
        }
    }

    private static void look() {
        long now = System.nanoTime();
        if (now - due < 0) {
            return;
        }
        before = last;
        last = new HashSet<>();
        if (read("/proc/self/net/tcp") | read("/proc/self/net/tcp6")) {
            looks++;
        }
        long took = System.nanoTime() - now;
        due = now + took + Math.max(LEAST_NS, SPARING * took);
    }

    private static boolean read(String table) {
        try {
            for (String line : Files.readAllLines(Path.of(table), StandardCharsets.US_ASCII)) {
                String[] words = line.trim().split("\\s+", 5);
                if (words.length == 5 && !OVER.contains(words[3]) && words[1].indexOf(':') > 0) {
                    last.add(name(words[1]) + " " + name(words[2]));
                }
            }
            return true;
        } catch (IOException none) {
            return false;
        }
    }

    /** An end as the table has it; IPv4 as such, whichever family its socket is of. */
    private static String name(String end) {
        String mapped = "0000000000000000FFFF0000";
        return end.startsWith(mapped) ? end.substring(mapped.length()) : end;
    }

    /** The words of an address are in the byte order of the host. */
    private static String name(InetSocketAddress end) {
        byte[] bytes = end.getAddress().getAddress();
        boolean isLittle = java.nio.ByteOrder.nativeOrder() == java.nio.ByteOrder.LITTLE_ENDIAN;
        StringBuilder text = new StringBuilder();
        for (int word = 0; word < bytes.length; word += 4) {
            for (int place = 0; place < 4; place++) {
                text.append(String.format("%02X", bytes[word + (isLittle ? 3 - place : place)]));
            }
        }
        return name(text + ":" + String.format("%04X", end.getPort()));
    }
}
