package cavalcade.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.junit.jupiter.api.Test;

class SettingsTest {
    private static SparkConf conf(String... pairs) {
        SparkConf conf = new SparkConf(false).set("spark.master", "spark://host:7077");
        for (int place = 0; place < pairs.length; place += 2) {
            conf.set(pairs[place], pairs[place + 1]);
        }
        return conf;
    }

    @Test
    void whatItCannotOrderIsLeftAloneWithAReason() {
        assertNull(Settings.declines(conf()));
        assertNull(Settings.declines(conf("spark.master", "local-cluster[2,1,1024]")));
        Map.of("spark.shuffle.service.enabled", "true", "spark.shuffle.push.enabled", "true", "spark.ssl.rpc.enabled", "true",
            "spark.shuffle.manager", "org.apache.spark.shuffle.celeborn.SparkShuffleManager",
            "spark.cavalcade.enabled", "false")
            .forEach((name, value) -> assertTrue(Settings.declines(conf(name, value)).contains(name), name));
        assertNotNull(Settings.declines(conf("spark.master", "local[2]")));
    }

    @Test
    void theReadersPatienceIsSparks() {
        assertEquals(120_000, Settings.of(conf(), Map.of()).patienceMs());
        assertEquals(60_000, Settings.of(conf("spark.network.timeout", "60"), Map.of()).patienceMs(), "seconds, as Spark reads it");
        assertEquals(5_000, Settings.of(conf("spark.network.timeout", "60s", "spark.shuffle.io.connectionTimeout", "5s"),
            Map.of()).patienceMs());
    }

    @Test
    void thePropertyNamesTheAgentBeforeTheEnvironment() {
        Map<String, String> environment = Map.of("CAVALCADE_SOCKET", "/tmp/a.sock");
        assertEquals(List.of(Path.of("/tmp/a.sock")), Settings.of(conf(), environment).sockets());
        assertEquals(List.of(Path.of("/tmp/b.sock")),
            Settings.of(conf("spark.cavalcade.socket", "/tmp/b.sock"), environment).sockets());
        assertEquals(List.of(Path.of("/run/user/7/cavalcade.sock"), Path.of("/run/cavalcade.sock")),
            Settings.of(conf(), Map.of("XDG_RUNTIME_DIR", "/run/user/7")).sockets());
    }

    @Test
    void oldJavaDeclines() {
        assertNull(CavalcadePlugin.load("1.8"));
        assertNull(CavalcadePlugin.load("11"));
        assertNotNull(CavalcadePlugin.load("17"));
    }
}
