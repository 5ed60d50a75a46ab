package cavalcade;

import java.math.BigDecimal;
import java.net.UnixDomainSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/**
 * What a caller may pass, checked before anything is stored: a call that fails leaves its session as it was. The libraries of all
 * languages have the same bounds, and say the same of what is beyond them.
 */
final class Arguments {
    /** A hundred years. */
    private static final Duration LONGEST = Duration.ofSeconds(3_155_760_000L);
    static final long MOST_WEIGHT = 0xffff_ffffL;
    /** An agent takes messages of up to 64 KiB. */
    private static final int MOST_PARENTS = 1_000;
    /** The number that means no user. */
    private static final long NO_USER = 0xffff_ffffL;
    private static final int LONGEST_PATH = 107;

    private Arguments() {}

    static Long size(Long size) {
        if (size != null && size < 0) {
            throw new IllegalArgumentException("a size of " + size + " bytes: expected 0 to " + Long.MAX_VALUE
                + ", or none where it is not known");
        }
        return size;
    }

    static Duration deadline(Duration deadline) {
        if (deadline != null && (deadline.isNegative() || deadline.compareTo(LONGEST) > 0)) {
            BigDecimal seconds = BigDecimal.valueOf(deadline.getSeconds())
                .add(BigDecimal.valueOf(deadline.getNano(), 9)).stripTrailingZeros();
            throw new IllegalArgumentException("a deadline of " + seconds.toPlainString()
                + " s from now: expected 0 to " + LONGEST.toSeconds() + " s, or none");
        }
        return deadline;
    }

    static long weight(long weight) {
        if (weight < 1 || weight > MOST_WEIGHT) {
            throw new IllegalArgumentException("a weight of " + weight + ": expected 1 to " + MOST_WEIGHT);
        }
        return weight;
    }

    static CoflowKey key(CoflowKey key) {
        if (key == null) {
            throw new IllegalArgumentException("expected the CoflowKey that register() returned, found null");
        }
        return key;
    }

    static Flow.Connection connection(Flow.Connection connection) {
        if (connection == null) {
            throw new IllegalArgumentException("expected a connection, found null");
        }
        if (connection.local() == null || connection.remote() == null) {
            throw new IllegalArgumentException("expected a connection with two ends, found " + connection.local() + " to "
                + connection.remote());
        }
        return connection;
    }

    static int length(int length) {
        if (length < 0) {
            throw new IllegalArgumentException("a length of " + length + " bytes: expected 0 or more");
        }
        return length;
    }

    static List<CoflowKey> parents(List<CoflowKey> parents) {
        if (parents == null) {
            return List.of();
        }
        parents.forEach(Arguments::key);
        if (parents.size() > MOST_PARENTS) {
            throw new IllegalArgumentException(parents.size() + " parents: expected at most " + MOST_PARENTS);
        }
        return List.copyOf(parents);
    }

    static int user(long user) {
        if (user < 0 || user >= NO_USER) {
            throw new IllegalArgumentException("user " + user + ": expected 0 to " + (NO_USER - 1));
        }
        return (int) user;
    }

    static Registration registration(Registration registration) {
        if (registration == null) {
            throw new IllegalArgumentException("expected a Registration, found null");
        }
        return registration;
    }

    /** The longest time to wait, in nanoseconds: as long as a clock can say. */
    static long patience(Duration longest) {
        if (longest == null) {
            throw new IllegalArgumentException("expected a time to wait, found null");
        }
        if (longest.isNegative()) {
            return 0;
        }
        Duration most = Duration.ofNanos(Long.MAX_VALUE / 2);
        return (longest.compareTo(most) > 0 ? most : longest).toNanos();
    }

    static List<Path> paths(Path path) {
        path(path);
        return List.of(path);
    }

    static UnixDomainSocketAddress path(Path path) {
        if (path == null) {
            throw new IllegalArgumentException("expected the path of an agent's socket, found null");
        }
        int length = path.toString().getBytes(StandardCharsets.UTF_8).length;
        if (length < 1 || length > LONGEST_PATH) {
            throw new IllegalArgumentException(
                "a path of " + length + " bytes: expected 1 to " + LONGEST_PATH + ", as sockets have");
        }
        return UnixDomainSocketAddress.of(path);
    }
}
