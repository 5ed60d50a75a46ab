package cavalcade.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import cavalcade.CoflowKey;
import cavalcade.Registration;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LedgerTest {
    private static final Ledger.Facts PLAIN = new Ledger.Facts(false, null, 1);

    /** What was registered, in order; and what is not over. */
    private final List<Registration> registered = new ArrayList<>();
    private final Map<CoflowKey, Registration> live = new HashMap<>();
    private final Ledger ledger = new Ledger(new Ledger.Coflows() {
        @Override
        public CoflowKey register(Registration registration) {
            CoflowKey key = new CoflowKey(registered.size(), 0, registered.size());
            registered.add(registration);
            live.put(key, registration);
            return key;
        }

        @Override
        public void unregister(CoflowKey key) {
            live.remove(key);
        }
    }, true);

    private static Ledger.Stage stage(int id, Integer writes, Integer... parents) {
        return new Ledger.Stage(id, writes, List.of(parents));
    }

    /** Two scans that a join reads, and what reads that. */
    private void runScans() {
        ledger.addExecutor("0", "a");
        ledger.addExecutor("1", "b");
        ledger.addExecutor("2", "b");
        ledger.beginJob(0, List.of(stage(0, 10), stage(1, 11), stage(2, 12, 0, 1), stage(3, null, 2)));
        ledger.beginStage(stage(0, 10), "sql-4", "Daily report", PLAIN);
        ledger.beginStage(stage(1, 11), "sql-4", "Daily report", PLAIN);
        ledger.wrote(0, 600);
        ledger.wrote(0, 400);
        ledger.wrote(1, 1_000);
    }

    @Test
    void aStageThatReadsTwoShufflesIsOneCoflow() {
        runScans();
        assertEquals(List.of(), registered, "to write a shuffle is no coflow");
        ledger.beginStage(stage(2, 12, 0, 1), "sql-4", "Daily report", PLAIN);
        assertEquals(List.of("Daily-report", "Daily-report/2"), registered.stream().map(Registration::name).toList());
        assertEquals(ledger.keyOf(10), ledger.keyOf(11));
        assertEquals(1_000, registered.get(1).size(), "of two hosts each reads half of what is there from its own");
    }

    @Test
    void coflowsStartAfterThoseThatWroteWhatTheyRead() {
        runScans();
        ledger.beginStage(stage(2, 12, 0, 1), "sql-4", null, PLAIN);
        CoflowKey join = ledger.keyOf(10);
        ledger.wrote(2, 90);
        ledger.endStage(2);
        assertNull(ledger.keyOf(10), "nobody reads it any more");
        ledger.beginStage(stage(3, null, 2), "sql-4", null, PLAIN);
        assertEquals(List.of(join), registered.get(2).parents());
        assertEquals("sql-4/3", registered.get(2).name());
        ledger.endStage(3);
        ledger.endJob(0);
        assertEquals(1, live.size(), "the root stays as long as its query");
        assertEquals(0, registered.get(0).size(), "it has no bytes, by which lists leave it out");
        ledger.endRoot("sql-4");
        assertEquals(Map.of(), live);
    }

    @Test
    void aShuffleThatALaterJobReadsIsAnotherCoflow() {
        runScans();
        ledger.beginStage(stage(2, 12, 0, 1), "sql-4", null, PLAIN);
        CoflowKey first = ledger.keyOf(10);
        ledger.endJob(0);
        // The later job skips the scan, under a number of its own.
        ledger.beginJob(1, List.of(stage(7, 10), stage(8, null, 7)));
        ledger.beginStage(stage(8, null, 7), Ledger.jobName(ledger.jobOf(8)), null, PLAIN);
        assertNotEquals(first, ledger.keyOf(10));
        assertEquals("job-1/8", registered.get(registered.size() - 1).name());
        assertEquals(500, registered.get(registered.size() - 1).size());
    }

    @Test
    void aStageThatIsTriedAgainIsAnotherCoflow() {
        runScans();
        ledger.beginStage(stage(2, 12, 0, 1), "sql-4", null, PLAIN);
        CoflowKey first = ledger.keyOf(10);
        ledger.beginStage(stage(2, 12, 0, 1), "sql-4", null, PLAIN);
        assertNotEquals(first, ledger.keyOf(10));
        assertEquals(2, live.size(), "the root and the second");
    }

    @Test
    void whatTheApplicationSaysIsSaidOfItsCoflows() {
        runScans();
        ledger.beginStage(stage(2, 12, 0, 1), "sql-4", null, new Ledger.Facts(true, Duration.ofSeconds(30), 5));
        Registration join = registered.get(1);
        assertEquals(List.of(true, Duration.ofSeconds(30), 5L), List.of(join.background(), join.deadline(), join.weight()));
    }

    @Test
    void anyDescriptionMakesAName() {
        ledger.beginJob(0, List.of(stage(0, 10), stage(1, null, 0)));
        ledger.beginStage(stage(1, null, 0), "sql-4", "  42% of «everything» that there is, in one very long line of text", PLAIN);
        assertEquals("q42-of-everything-that-there-is-in-one-", registered.get(0).name());
        assertEquals("q42-of-everything-that-there-is-in-on/1", registered.get(1).name());
        assertNull(registered.get(1).size(), "what was not written here is not known");
    }

    @Test
    void theEndEndsAll() {
        runScans();
        ledger.beginStage(stage(2, 12, 0, 1), "sql-4", null, PLAIN);
        ledger.end();
        assertEquals(Map.of(), live);
    }
}
