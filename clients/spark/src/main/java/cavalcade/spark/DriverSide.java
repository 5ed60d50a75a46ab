package cavalcade.spark;

import cavalcade.CoflowKey;
import cavalcade.Registration;
import cavalcade.Session;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;

/**
 * The driver: it hears what Spark does, keeps the {@link Ledger}, and names the coflow of a shuffle to executors that ask.
 *
 * <p>Collections of Scala have other classes in each of its versions, so what returns one is called by its name.
 */
final class DriverSide extends SparkListener implements AutoCloseable {
    /** What an executor asks, with the number of a shuffle. */
    static final String QUESTION = "coflow-of-shuffle:";

    private final SparkConf conf;
    private final Session session;
    private final Ledger ledger;
    private boolean isOver;

    private DriverSide(SparkConf conf, Settings settings) {
        this.conf = conf;
        session = Session.at(settings.sockets());
        ledger = new Ledger(new Ledger.Coflows() {
            @Override
            public CoflowKey register(Registration registration) {
                return session.register(registration);
            }

            @Override
            public void unregister(CoflowKey key) {
                session.unregister(key);
            }
        }, settings.readsHostDisk());
    }

    static DriverSide start(SparkContext context, SparkConf conf, Settings settings) {
        DriverSide side = new DriverSide(conf, settings);
        context.addSparkListener(side);
        return side;
    }

    /** The key of the coflow that reads a shuffle, as text; none where that is not known yet, or the question is not understood. */
    String answer(String question) {
        if (!question.matches(QUESTION + "[0-9]{1,9}")) {
            return "";
        }
        synchronized (this) {
            CoflowKey key = isOver ? null : ledger.keyOf(Integer.parseInt(question.substring(QUESTION.length())));
            return key == null ? "" : key.toString();
        }
    }

    /** Notes an event. One that fails ends it all: names that are wrong would be worse than none. */
    private synchronized void note(Consumer<Ledger> event) {
        if (isOver) {
            return;
        }
        try {
            event.accept(ledger);
        } catch (RuntimeException | LinkageError broken) {
            Sides.LOG.warn("Cavalcade names no more coflows of this application, whose shuffles are plain TCP from here on", broken);
            close();
        }
    }

    @Override
    public void onJobStart(SparkListenerJobStart event) {
        note(known -> {
            List<Ledger.Stage> stages = new ArrayList<>();
            Scala.each(Scala.call(event, "stageInfos"), info -> stages.add(stage((StageInfo) info)));
            known.beginJob(event.jobId(), stages);
        });
    }

    private static Ledger.Stage stage(StageInfo info) {
        List<Integer> parents = new ArrayList<>();
        Scala.each(Scala.call(info, "parentIds"), parent -> parents.add((Integer) parent));
        Integer writes = info.shuffleDepId().isDefined() ? (Integer) info.shuffleDepId().get() : null;
        return new Ledger.Stage(info.stageId(), writes, List.copyOf(parents));
    }

    @Override
    public void onStageSubmitted(SparkListenerStageSubmitted event) {
        note(known -> {
            Properties local = event.properties() == null ? new Properties() : event.properties();
            Ledger.Stage stage = stage(event.stageInfo());
            String query = local.getProperty("spark.sql.execution.root.id", local.getProperty("spark.sql.execution.id"));
            String group = query == null ? Ledger.jobName(known.jobOf(stage.id())) : queryName(query);
            known.beginStage(stage, group, local.getProperty("spark.job.description"), facts(local));
        });
    }

    private static String queryName(String query) {
        return "sql-" + query;
    }

    /** What the application says of a job by local properties, or of all by its own. What is no value is as if it were not there. */
    private Ledger.Facts facts(Properties local) {
        try {
            String deadline = property(local, "spark.cavalcade.deadline", "");
            Duration time = deadline.isEmpty() ? null : Duration.ofMillis(JavaUtils.timeStringAsMs(deadline));
            Ledger.Facts facts = new Ledger.Facts(property(local, "spark.cavalcade.class", "").equals("background"), time,
                Long.parseLong(property(local, "spark.cavalcade.weight", "1")));
            // Checks them.
            new Registration(List.of(), facts.deadline(), null, false, facts.weight(), null);
            return facts;
        } catch (IllegalArgumentException invalid) {
            Sides.LOG.warn("Cavalcade takes no deadline and weight from spark.cavalcade.deadline and .weight: {}", invalid.getMessage());
            return new Ledger.Facts(false, null, 1);
        }
    }

    private String property(Properties local, String name, String otherwise) {
        return local.getProperty(name, conf.get(name, otherwise)).strip();
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd event) {
        if (event.taskMetrics() != null && event.taskInfo() != null && event.taskInfo().successful()) {
            long bytes = event.taskMetrics().shuffleWriteMetrics().bytesWritten();
            note(known -> known.wrote(event.stageId(), bytes));
        }
    }

    @Override
    public void onStageCompleted(SparkListenerStageCompleted event) {
        note(known -> known.endStage(event.stageInfo().stageId()));
    }

    @Override
    public void onJobEnd(SparkListenerJobEnd event) {
        note(known -> known.endJob(event.jobId()));
    }

    @Override
    public void onOtherEvent(SparkListenerEvent event) {
        // Of another jar than Spark's core, which an application may lack.
        if (event.getClass().getName().equals("org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd")) {
            note(known -> known.endRoot(queryName(String.valueOf(Scala.call(event, "executionId")))));
        }
    }

    @Override
    public void onExecutorAdded(SparkListenerExecutorAdded event) {
        note(known -> known.addExecutor(event.executorId(), event.executorInfo().executorHost()));
    }

    @Override
    public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
        note(known -> known.removeExecutor(event.executorId()));
    }

    @Override
    public void onApplicationEnd(SparkListenerApplicationEnd event) {
        close();
    }

    @Override
    public synchronized void close() {
        if (!isOver) {
            isOver = true;
            ledger.end();
            session.close();
        }
    }
}
