package cavalcade;

import java.time.Duration;
import java.util.List;

/**
 * What an application may say of a coflow: coflows that it starts after, how long from now its task has time, its bytes
 * (null where these are not known), whether nobody waits for it, and its task's weight.
 */
public record Registration(List<CoflowKey> parents, Duration deadline, Long size, boolean background, int weight) {
    /** Nothing but that there is one. */
    public Registration() {
        this(List.of(), null, null, false, 1);
    }

    /** One that starts after {@code parents}. */
    public static Registration after(CoflowKey... parents) {
        return new Registration(List.of(parents), null, null, false, 1);
    }
}
