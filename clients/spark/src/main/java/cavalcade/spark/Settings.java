package cavalcade.spark;

import cavalcade.Places;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;

/**
 * What an application's properties say: the places where the agent's socket may be, whether readers fetch host-local blocks from disk, and for how
 * many milliseconds a reader waits for a message before it gives its connection up.
 */
record Settings(List<Path> sockets, boolean readsHostDisk, long patienceMs) {
    private static final Set<String> SORTS =
        Set.of("sort", "tungsten-sort", "org.apache.spark.shuffle.sort.SortShuffleManager");

    /** Reads them. */
    static Settings of(SparkConf conf, Map<String, String> environment) {
        String named = conf.get("spark.cavalcade.socket", "");
        List<Path> sockets = named.isEmpty() ? Places.of(environment) : List.of(Path.of(named));
        // As Spark's transport reads it: a number alone is seconds, and 0 turns its timer off.
        String network = conf.get("spark.network.timeout", "120s");
        long patience = TimeUnit.SECONDS.toMillis(conf.getTimeAsSeconds("spark.shuffle.io.connectionTimeout", network));
        return new Settings(sockets,
            conf.getBoolean("spark.shuffle.readHostLocalDisk", true),
            patience > 0 ? patience : TimeUnit.SECONDS.toMillis(120));
    }

    /** Why an application with these properties is left alone; null where it is not. */
    static String declines(SparkConf conf) {
        String manager = conf.get("spark.shuffle.manager", "sort");
        if (!conf.getBoolean("spark.cavalcade.enabled", true)) {
            return "spark.cavalcade.enabled is false";
        }
        if (conf.get("spark.master", "").matches("local(\\[.*\\])?")) {
            return "all of it runs in one process, so no shuffle crosses the network";
        }
        if (conf.getBoolean("spark.shuffle.service.enabled", false)) {
            return "an external shuffle service serves its blocks (spark.shuffle.service.enabled), which has no plugins";
        }
        if (conf.getBoolean("spark.shuffle.push.enabled", false)) {
            return "its shuffles are pushed (spark.shuffle.push.enabled)";
        }
        if (!SORTS.contains(manager)) {
            return "another shuffle manager moves its blocks (spark.shuffle.manager is " + manager + ")";
        }
        if (conf.getBoolean("spark.ssl.rpc.enabled", conf.getBoolean("spark.ssl.enabled", false))) {
            return "its connections are in TLS (spark.ssl.rpc.enabled)";
        }
        return null;
    }
}
