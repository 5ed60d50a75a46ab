package cavalcade;

import java.util.Comparator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The name of a coflow: the same on every host, and unique. Keys order as coflows do: tasks first, then stages. The
 * parts are unsigned.
 */
public record CoflowKey(long task, int stage, long serial) implements Comparable<CoflowKey> {
    private static final Comparator<CoflowKey> ORDER = Comparator
        .comparing(CoflowKey::task, Long::compareUnsigned)
        .thenComparingInt(CoflowKey::stage)
        .thenComparing(CoflowKey::serial, Long::compareUnsigned);

    static final int MOST_STAGE = 0xffff;
    private static final Pattern TEXT = Pattern.compile("([0-9]+)\\.([0-9]{1,9})\\.([0-9]+)");

    /** Checks the stage; fails with an {@link IllegalArgumentException}. */
    public CoflowKey {
        if (stage < 0 || stage > MOST_STAGE) {
            throw isNone(Long.toUnsignedString(task) + "." + stage + "." + Long.toUnsignedString(serial));
        }
    }

    /** Reads {@code task.stage.serial}; fails with an {@link IllegalArgumentException} where it is something else. */
    public static CoflowKey parse(String text) {
        if (text == null) {
            throw new IllegalArgumentException("expected the text of a key, as 7.0.7, found null");
        }
        Matcher parts = TEXT.matcher(text);
        try {
            if (parts.matches()) {
                long task = Long.parseUnsignedLong(parts.group(1));
                return new CoflowKey(task, Integer.parseInt(parts.group(2)), Long.parseUnsignedLong(parts.group(3)));
            }
        } catch (NumberFormatException tooLarge) {
            throw isNone(text);
        }
        throw isNone(text);
    }

    private static IllegalArgumentException isNone(String text) {
        String shown = text.substring(0, Math.min(78, text.length()));
        return new IllegalArgumentException("'" + shown + "' is no key of a coflow, as 7.0.7");
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
