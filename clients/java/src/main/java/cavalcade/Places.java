package cavalcade;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Where an agent is looked for by programs that name no place. */
public final class Places {
    private Places() {}

    /**
     * The places in an environment, in the order in which they are tried: {@code $CAVALCADE_SOCKET} alone where it is set; else
     * {@code cavalcade.sock} in {@code $XDG_RUNTIME_DIR}, where this user's own agent listens, and in {@code /run}, where that of the
     * host does.
     */
    public static List<Path> of(Map<String, String> environment) {
        String named = environment.getOrDefault("CAVALCADE_SOCKET", "");
        if (!named.isEmpty()) {
            return List.of(Path.of(named));
        }
        return Stream.of(environment.getOrDefault("XDG_RUNTIME_DIR", ""), "/run").filter(folder -> !folder.isEmpty())
            .map(folder -> Path.of(folder, "cavalcade.sock")).distinct().toList();
    }
}
