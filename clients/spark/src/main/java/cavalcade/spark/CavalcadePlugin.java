package cavalcade.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's shuffles as coflows: {@code spark.plugins=cavalcade.spark.CavalcadePlugin}.
 *
 * <p>The driver registers a coflow for each stage that reads shuffles. Executors that read give each shuffle connections of its own,
 * and executors that serve send as their agent orders. Whatever is missing or fails, the application runs on as it does without, and
 * one line of the log says why.
 *
 * <p>This class alone is for Java 8, on which older Sparks run: any other class would end their executors.
 */
public final class CavalcadePlugin implements SparkPlugin {
    private static final Logger LOG = LoggerFactory.getLogger("cavalcade");
    private static final int LEAST_JAVA = 17;

    private final SparkPlugin able;

    /** Called by Spark, at the driver and at each executor. */
    public CavalcadePlugin() {
        able = load(System.getProperty("java.specification.version"));
    }

    /** The plugin itself; null where this Java is too old for it. */
    static SparkPlugin load(String java) {
        try {
            // Before Java 9 it was 1.8.
            if (Double.parseDouble(java) < LEAST_JAVA) {
                LOG.warn("Cavalcade leaves this application alone: it needs Java {}, and this is Java {}", LEAST_JAVA, java);
                return null;
            }
            return (SparkPlugin) Class.forName("cavalcade.spark.Sides").getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException | LinkageError | RuntimeException broken) {
            LOG.warn("Cavalcade leaves this application alone: it cannot be loaded", broken);
            return null;
        }
    }

    @Override
    public DriverPlugin driverPlugin() {
        return able == null ? null : able.driverPlugin();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return able == null ? null : able.executorPlugin();
    }
}
