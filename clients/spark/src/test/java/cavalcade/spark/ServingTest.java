package cavalcade.spark;

import static org.apache.spark.network.protocol.Messages.message;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOutboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.spark.network.buffer.NioManagedBuffer;
import org.apache.spark.network.protocol.RpcRequest;
import org.apache.spark.network.shuffle.protocol.FetchShuffleBlocks;
import org.apache.spark.network.shuffle.protocol.OpenBlocks;
import org.junit.jupiter.api.Test;

class ServingTest {
    private final List<Integer> asked = new ArrayList<>();
    private final List<Consumer<Turn>> answers = new ArrayList<>();
    private final EmbeddedChannel channel = new EmbeddedChannel();

    ServingTest() {
        channel.freezeTime();
        channel.pipeline().addLast("encoder", new ChannelOutboundHandlerAdapter());
        channel.pipeline().addLast("handler", new ChannelInboundHandlerAdapter());
        Serving.install(channel.pipeline(), (out, shuffle, changed, opened) -> {
            asked.add(shuffle);
            answers.add(opened);
        }, 30_000);
    }

    private void request(int shuffle) {
        channel.writeInbound(rpc(new FetchShuffleBlocks("app", "0", shuffle, new long[] {1}, new int[][] {{0}}, false).toByteBuffer()));
    }

    private static RpcRequest rpc(ByteBuffer body) {
        return new RpcRequest(7, new NioManagedBuffer(body));
    }

    private void answer() throws Exception {
        channel.writeOutbound(message(Gate.PIECE - 8, 1));
        channel.runPendingTasks();
    }

    private void pass(long millis) {
        channel.advanceTimeBy(millis, TimeUnit.MILLISECONDS);
        channel.runScheduledPendingTasks();
        channel.runPendingTasks();
    }

    @Test
    void sparksOwnRequestNamesTheShuffle() {
        assertEquals(5, Serving.shuffleOf(rpc(new OpenBlocks("app", "0", new String[] {"shuffle_5_1_0"}).toByteBuffer())));
        assertEquals(-1, Serving.shuffleOf(rpc(new OpenBlocks("app", "0", new String[] {"rdd_5_1"}).toByteBuffer())));
        assertEquals(-1, Serving.shuffleOf(rpc(ByteBuffer.wrap(new byte[] {9, 1}))));
        assertEquals(-1, Serving.shuffleOf(rpc(ByteBuffer.allocate(0))));
        request(3);
        assertEquals(List.of(3), asked);
    }

    @Test
    void blocksWaitForTheNameOfTheirCoflowForAMoment() throws Exception {
        request(3);
        answer();
        assertNull(channel.readOutbound());
        pass(Serving.ASK_MS);
        assertTrue(channel.readOutbound() instanceof Piece, "a driver that says nothing holds nobody up");
        GateTest.Orders orders = new GateTest.Orders();
        answers.get(0).accept(orders);
        orders.isOpen = false;
        answer();
        assertNull(channel.readOutbound(), "an answer that comes late counts from then on");
    }

    @Test
    void aConnectionThatRestsIsNoFlow() throws Exception {
        GateTest.Orders orders = new GateTest.Orders();
        request(3);
        answers.get(0).accept(orders);
        answer();
        pass(Serving.REST_MS);
        pass(Serving.REST_MS);
        assertTrue(orders.isClosed);
        request(3);
        assertEquals(List.of(3, 3), asked, "it may be another stage's by now");
    }

    @Test
    void aConnectionGoesFromOneShuffleToTheNext() throws Exception {
        GateTest.Orders orders = new GateTest.Orders();
        request(3);
        answers.get(0).accept(orders);
        answer();
        request(4);
        assertTrue(orders.isClosed);
        assertEquals(List.of(3, 4), asked);
    }

    @Test
    void theConnectionThatStockSparkSharesIsLeftAlone() throws Exception {
        GateTest.Orders orders = new GateTest.Orders();
        request(3);
        answers.get(0).accept(orders);
        orders.isOpen = false;
        request(4);
        assertTrue(orders.isClosed);
        answer();
        assertFalse(channel.outboundMessages().isEmpty());
        request(5);
        assertEquals(List.of(3), asked);
    }

    @Test
    void anAnswerToAnOlderQuestionIsNone() {
        GateTest.Orders old = new GateTest.Orders();
        request(3);
        channel.close();
        answers.get(0).accept(old);
        assertTrue(old.isClosed);
    }
}
