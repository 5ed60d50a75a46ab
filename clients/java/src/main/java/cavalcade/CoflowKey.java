package cavalcade;

import java.util.Comparator;
import java.util.List;

/**
 * The name of a coflow: the same on every host, and unique. Keys order as coflows do: tasks first, then stages. The
 * parts are unsigned.
 */
public record CoflowKey(long task, int stage, long serial) implements Comparable<CoflowKey> {
    private static final Comparator<CoflowKey> ORDER = Comparator
        .comparing(CoflowKey::task, Long::compareUnsigned)
        .thenComparingInt(CoflowKey::stage)
        .thenComparing(CoflowKey::serial, Long::compareUnsigned);

    /** Reads {@code task.stage.serial}. */
    public static CoflowKey parse(String text) {
        String[] parts = text.split("\\.", -1);
        if (parts.length != 3) {
            throw new IllegalArgumentException(text + " is no key of a coflow, as 7.0.7");
        }
        return new CoflowKey(
            Long.parseUnsignedLong(parts[0]), Integer.parseInt(parts[1]), Long.parseUnsignedLong(parts[2]));
    }

    /** The key of a coflow registered as number {@code serial} that starts after {@code parents}. */
    static CoflowKey of(long serial, List<CoflowKey> parents) {
        long task = parents.stream().map(CoflowKey::task).min(Long::compareUnsigned).orElse(serial);
        int stage = parents.stream().mapToInt(parent -> Math.min(parent.stage + 1, 0xffff)).max().orElse(0);
        return new CoflowKey(task, stage, serial);
    }

    @Override
    public int compareTo(CoflowKey other) {
        return ORDER.compare(this, other);
    }

    @Override
    public String toString() {
        return Long.toUnsignedString(task) + "." + stage + "." + Long.toUnsignedString(serial);
    }
}
