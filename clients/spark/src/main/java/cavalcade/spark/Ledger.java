package cavalcade.spark;

import cavalcade.CoflowKey;
import cavalcade.Registration;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What the driver knows of an application's shuffles, and the coflows that it makes of them.
 *
 * <p>A coflow is what one stage reads. A join reads two shuffles at once: as two coflows they would compete with each other for the
 * same tasks. Spark submits a stage only once all that it reads has been written, so the size is known then. The coflows of a query are
 * under a root, and start after those of the stages that wrote what they read.
 *
 * <p>Stages have numbers of their own in each job. Where a later job skips a stage since its shuffle is still there, its number is new
 * and the shuffle's is not, so all that outlives a job is kept by shuffle. What was said of a stage goes with its job, and what was written
 * stays: a shuffle may be read again until the application ends. It is called by one thread at a time.
 */
final class Ledger {
    /** Makes coflows and ends them. */
    interface Coflows {
        CoflowKey register(Registration registration);

        void unregister(CoflowKey key);
    }

    /** What Spark says of a stage: the number of the shuffle that it writes or null, and the stages before it. */
    record Stage(int id, Integer writes, List<Integer> parents) {}

    /** What the application says of its work, by local properties. */
    record Facts(boolean isBackground, Duration deadline, long weight) {}

    /** A query or job: what its coflows are under. */
    private record Root(CoflowKey key, String name) {}

    /** What a stage that runs reads. */
    private record Reading(CoflowKey key, List<Integer> shuffles) {}

    private static final int LONGEST_NAME = 39;
    /** Of a server's many queries the latest shuffles are kept. */
    static final int MOST_SHUFFLES = 20_000;

    private final Coflows coflows;
    private final boolean readsHostDisk;
    private final Map<Integer, Stage> stages = new HashMap<>();
    private final Map<Integer, Collection<Integer>> stagesOf = new HashMap<>();
    private final TreeMap<Integer, Long> written = new TreeMap<>();
    /** The coflow of the stage that wrote a shuffle. */
    private final TreeMap<Integer, CoflowKey> origins = new TreeMap<>();
    private final Map<String, Root> roots = new HashMap<>();
    /** By stage, the latest last: of two that read a shuffle the later one counts. */
    private final Map<Integer, Reading> readings = new TreeMap<>();
    private final Map<String, String> hostOf = new HashMap<>();

    Ledger(Coflows coflows, boolean readsHostDisk) {
        this.coflows = coflows;
        this.readsHostDisk = readsHostDisk;
    }

    /** A job begins, with these stages, of which it skips some. */
    void beginJob(int job, Collection<Stage> all) {
        all.forEach(stage -> stages.put(stage.id(), stage));
        stagesOf.put(job, all.stream().map(Stage::id).toList());
    }

    /** A job has ended, and with it the root of its coflows where no query has one. */
    void endJob(int job) {
        Collection<Integer> over = stagesOf.remove(job);
        if (over != null) {
            over.forEach(this::endStage);
            over.forEach(stages::remove);
        }
        endRoot(jobName(job));
    }

    static String jobName(int job) {
        return "job-" + job;
    }

    /** The job of a stage, −1 where that is not known. */
    int jobOf(int stage) {
        return stagesOf.entrySet().stream().filter(one -> one.getValue().contains(stage)).mapToInt(Map.Entry::getKey)
            .max().orElse(-1);
    }

    /** A stage begins. {@code group} stands for its query or job, {@code description} is the user's or null. */
    void beginStage(Stage stage, String group, String description, Facts facts) {
        stages.put(stage.id(), stage);
        endStage(stage.id());
        List<Integer> shuffles = stage.parents().stream().map(stages::get)
            .filter(parent -> parent != null && parent.writes() != null).map(Stage::writes).toList();
        if (shuffles.isEmpty()) {
            return;
        }
        Root root = roots.computeIfAbsent(group, absent -> begin(group, description, facts));
        List<CoflowKey> before = new ArrayList<>(shuffles.stream().map(origins::get).filter(key -> key != null).distinct().toList());
        if (before.isEmpty()) {
            before.add(root.key());
        }
        String name = fit(root.name(), "/" + stage.id());
        CoflowKey key = coflows.register(
            new Registration(before, facts.deadline(), size(shuffles), facts.isBackground(), facts.weight(), name));
        readings.put(stage.id(), new Reading(key, shuffles));
        if (stage.writes() != null) {
            origins.put(stage.writes(), key);
            forgetOldest(origins);
        }
    }

    /** Registers a root: with no bytes, so that lists of coflows leave it out. */
    private Root begin(String group, String description, Facts facts) {
        String name = name(description == null || description.isBlank() ? group : description);
        Registration registration = new Registration(
            List.of(), facts.deadline(), 0L, facts.isBackground(), facts.weight(), fit(name, ""));
        return new Root(coflows.register(registration), name);
    }

    /** Bytes of shuffles that cross the network: tasks run anywhere, so of what a place holds it reads its share itself. */
    private Long size(List<Integer> shuffles) {
        long bytes = 0;
        for (int shuffle : shuffles) {
            Long known = written.get(shuffle);
            if (known == null) {
                return null;
            }
            bytes += known;
        }
        long places = readsHostDisk ? Set.copyOf(hostOf.values()).size() : hostOf.size();
        return places < 2 ? bytes : bytes / places * (places - 1);
    }

    /** A task of a stage has written so many bytes. */
    void wrote(int stage, long bytes) {
        Stage writer = stages.get(stage);
        if (writer != null && writer.writes() != null) {
            written.merge(writer.writes(), bytes, Long::sum);
            forgetOldest(written);
        }
    }

    private static void forgetOldest(TreeMap<Integer, ?> known) {
        if (known.size() > MOST_SHUFFLES) {
            known.pollFirstEntry();
        }
    }

    /** A stage is over, or begins again. */
    void endStage(int stage) {
        Reading over = readings.remove(stage);
        if (over != null) {
            coflows.unregister(over.key());
        }
    }

    /** A query is over. */
    void endRoot(String group) {
        Root over = roots.remove(group);
        if (over != null) {
            coflows.unregister(over.key());
        }
    }

    void addExecutor(String executor, String host) {
        hostOf.put(executor, host);
    }

    void removeExecutor(String executor) {
        hostOf.remove(executor);
    }

    /** The coflow that reads a shuffle at present, null where none does. */
    CoflowKey keyOf(int shuffle) {
        CoflowKey latest = null;
        for (Reading reading : readings.values()) {
            latest = reading.shuffles().contains(shuffle) ? reading.key() : latest;
        }
        return latest;
    }

    /** Everything is over. */
    void end() {
        List.copyOf(readings.keySet()).forEach(this::endStage);
        List.copyOf(roots.keySet()).forEach(this::endRoot);
    }

    /** A name of a coflow from any text. */
    static String name(String text) {
        String safe = text.strip().replaceAll("[^A-Za-z0-9_.:/@+-]+", "-");
        return safe.isEmpty() || !safe.substring(0, 1).matches("[A-Za-z]") ? "q" + safe : safe;
    }

    private static String fit(String name, String rest) {
        return name.substring(0, Math.min(name.length(), LONGEST_NAME - rest.length())) + rest;
    }
}
