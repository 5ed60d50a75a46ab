package cavalcade;

import java.time.Duration;
import java.util.List;
import java.util.regex.Pattern;

/**
 * What an application may say of a coflow: coflows that it starts after, how long from now its task has time, its bytes
 * (null where these are not known), whether nothing waits for it, its task's weight, and its name (null for none).
 *
 * <p>A name is what people see and type in place of the key, as {@code sort-7}. Several coflows may have the same one.
 */
public record Registration(
    List<CoflowKey> parents, Duration deadline, Long size, boolean background, long weight, String name) {
    private static final Pattern NAME = Pattern.compile("[A-Za-z][A-Za-z0-9_.:/@+-]{0,38}");

    /** Checks everything; fails with an {@link IllegalArgumentException} that says what may be. */
    public Registration {
        parents = Arguments.parents(parents);
        Arguments.deadline(deadline);
        Arguments.size(size);
        Arguments.weight(weight);
        if (name != null && !isName(name)) {
            throw new IllegalArgumentException("'" + name.substring(0, Math.min(78, name.length()))
                + "' is no name of a coflow: expected 1 to 39 letters, digits or -_.:/@+, the first a letter, as sort-7");
        }
    }

    /** Nothing but that there is one. */
    public Registration() {
        this(List.of(), null, null, false, 1, null);
    }

    /** One that starts after {@code parents}. */
    public static Registration after(CoflowKey... parents) {
        return new Registration(parents == null ? null : java.util.Arrays.asList(parents), null, null, false, 1, null);
    }

    /** The same with a name. */
    public Registration named(String name) {
        return new Registration(parents, deadline, size, background, weight, name);
    }

    static boolean isName(String name) {
        return NAME.matcher(name).matches();
    }
}
