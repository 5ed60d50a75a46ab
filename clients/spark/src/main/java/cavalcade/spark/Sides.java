package cavalcade.spark;

import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The sides of an application: its driver and its executors. Nothing that goes wrong in one of them reaches Spark. */
public final class Sides implements SparkPlugin {
    static final Logger LOG = LoggerFactory.getLogger("cavalcade");
    /** What the driver tells executors: whether it names coflows. */
    private static final String NAMES = "cavalcade.names";

    @Override
    public DriverPlugin driverPlugin() {
        return new Driver();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return new Executor();
    }

    private static final class Driver implements DriverPlugin {
        private volatile DriverSide side;

        @Override
        public Map<String, String> init(SparkContext context, PluginContext plugin) {
            try {
                String reason = Settings.declines(plugin.conf());
                if (reason != null) {
                    LOG.warn("Cavalcade leaves this application alone: {}", reason);
                    return Map.of();
                }
                Settings settings = Settings.of(plugin.conf(), System.getenv());
                side = DriverSide.start(context, plugin.conf(), settings);
                LOG.info("Cavalcade names the coflows of this application to the agent at {}", settings.sockets());
                return Map.of(NAMES, "true");
            } catch (Exception | LinkageError broken) {
                LOG.warn("Cavalcade leaves this application alone: the driver cannot start it", broken);
                return Map.of();
            }
        }

        @Override
        public Object receive(Object message) {
            DriverSide current = side;
            return current == null ? "" : current.answer(String.valueOf(message));
        }

        @Override
        public void shutdown() {
            DriverSide current = side;
            if (current != null) {
                current.close();
            }
        }
    }

    private static final class Executor implements ExecutorPlugin {
        private ExecutorSide side;

        @Override
        public void init(PluginContext plugin, Map<String, String> told) {
            // The driver has said why.
            if (!told.containsKey(NAMES)) {
                return;
            }
            try {
                side = ExecutorSide.start(plugin, Settings.of(plugin.conf(), System.getenv()));
                LOG.info("Cavalcade is at work: {}", side);
            } catch (Exception | LinkageError broken) {
                LOG.warn("Cavalcade leaves this executor alone, which is stock Spark: {}", broken.toString());
            }
        }

        @Override
        public void shutdown() {
            if (side != null) {
                side.close();
            }
        }
    }
}
